package relock_test

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// A lockKind is a kind of lock, or a side of one, that waits for another: what every
// lock must do is tested over all of lockKinds.
type lockKind struct {
	name   string
	of     func(s *relock.Session) relock.Locker // a lock of the kind, of the name "lock"
	holder func(s *relock.Session) relock.Locker // one that excludes it
	sha    string                                // of the script by which it first asks
}

// exclusive reports whether locks of the kind exclude each other.
func (k *lockKind) exclusive() bool { return k.sha != readSHA }

var lockKinds = func() []*lockKind {
	mutex := func(s *relock.Session) relock.Locker { return s.Mutex("lock") }
	fair := func(s *relock.Session) relock.Locker { return s.FairMutex("lock") }
	writer := func(s *relock.Session) relock.Locker { return s.RWMutex("lock") }
	reader := func(s *relock.Session) relock.Locker { return s.RWMutex("lock").RLocker() }
	return []*lockKind{
		{"Mutex", mutex, mutex, acquireSHA},
		{"FairMutex", fair, fair, enterSHA},
		{"writer after a writer", writer, writer, writeSHA},
		{"writer after a reader", writer, reader, writeSHA},
		{"reader after a writer", reader, writer, readSHA},
	}
}()

// eachKind runs f in a parallel subtest for each kind of lock.
func eachKind(t *testing.T, f func(t *testing.T, k *lockKind)) {
	t.Helper()
	t.Parallel()
	for _, k := range lockKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// eachExclusive does so for those of which only one holds it at a time.
func eachExclusive(t *testing.T, f func(t *testing.T, k *lockKind)) {
	t.Helper()
	t.Parallel()
	for _, k := range lockKinds {
		if k.exclusive() {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				f(t, k)
			})
		}
	}
}

// nothingLeft waits until nothing of any lock is left in Redis but tokens, and maybe
// the end of a readers' turn.
func nothingLeft(t testing.TB, client rueidis.Client) {
	t.Helper()
	redistest.Eventually(t, quickly, "everything to be released", func() bool {
		for _, key := range keys(t, client) {
			switch {
			case key == "count":
			case strings.HasPrefix(key, "relock_intent:"):
				for field := range hashOf(t, client, key) {
					if field != "turn" {
						return false
					}
				}
			default:
				return false
			}
		}
		return true
	})
}
