package kit

import (
	"testing"

	"github.com/relock-go/relock"
)

// A lockKind is a kind of lock, or a side of one, that waits for another: what every
// lock must do is tested over all of lockKinds.
type LockKind struct {
	Name   string
	Of     func(s *relock.Session, o ...relock.LockOption) relock.Locker // a lock of the kind, of the name "lock"
	Holder func(s *relock.Session, o ...relock.LockOption) relock.Locker // one that excludes it
	Sha    string                                                        // of the script by which it first asks
}

// Exclusive reports whether locks of the kind exclude each other.
func (k *LockKind) Exclusive() bool { return k.Sha != ReadSHA }

var LockKinds = func() []*LockKind {
	mutex := func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.Mutex("lock", o...) }
	fair := func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.FairMutex("lock", o...) }
	writer := func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.RWMutex("lock", o...) }
	reader := func(s *relock.Session, o ...relock.LockOption) relock.Locker {
		return s.RWMutex("lock", o...).RLocker()
	}
	permit := func(s *relock.Session, o ...relock.LockOption) relock.Locker { return s.Semaphore("lock", 1, o...) }
	return []*LockKind{
		{"Mutex", mutex, mutex, AcquireSHA},
		{"FairMutex", fair, fair, AcquireSHA},
		{"writer after a writer", writer, writer, WriteSHA},
		{"writer after a reader", writer, reader, WriteSHA},
		{"reader after a writer", reader, writer, ReadSHA},
		{"Semaphore", permit, permit, PermitSHA},
	}
}()

// EachKind runs f in a parallel subtest for each kind of lock.
func EachKind(t *testing.T, f func(t *testing.T, k *LockKind)) {
	t.Helper()
	t.Parallel()
	for _, k := range LockKinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}
