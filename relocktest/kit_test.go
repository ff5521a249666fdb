package relocktest_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

var background = context.Background()

// What a lease of 30 s, the default, means for its holder.
const (
	lease = 30 * time.Second
	told  = lease - lease/500 - 3*time.Millisecond // by then its loss
	renew = lease / 3
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a lock of some type, and what it is on.
type world struct {
	t     testing.TB
	redis []*relocktest.Redis // one, or those of a Redlock
	s     []*relock.Session   // of the same process, one on each Redis
	names []string            // of the locks in Redis
	lock  relock.Locker
	other relock.Locker // the same lock, by another process
}

var types = []struct {
	name  string
	redis int
	names []string
	make  func(s []*relock.Session) relock.Locker
}{
	{"Mutex", 1, []string{"a"}, func(s []*relock.Session) relock.Locker { return s[0].Mutex("a") }},
	{"FairMutex", 1, []string{"a"}, func(s []*relock.Session) relock.Locker { return s[0].FairMutex("a") }},
	{"RWMutex/write", 1, []string{"a"}, func(s []*relock.Session) relock.Locker { return s[0].RWMutex("a") }},
	{"RWMutex/read", 1, []string{"a"}, func(s []*relock.Session) relock.Locker { return s[0].RWMutex("a").RLocker() }},
	{"Group", 1, []string{"a", "b"}, func(s []*relock.Session) relock.Locker {
		return relock.NewGroup(s[0].Mutex("a"), s[0].Mutex("b"))
	}},
	{"Group/mixed", 1, []string{"a", "b"}, func(s []*relock.Session) relock.Locker {
		return relock.NewGroup(s[0].FairMutex("a"), s[0].RWMutex("b"))
	}},
	{"Redlock", 3, []string{"a"}, func(s []*relock.Session) relock.Locker { return relock.NewRedlock(s, "a") }},
}

// onEach runs a test in a bubble for each type of lock.
func onEach(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	for _, typ := range types {
		t.Run(typ.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, names: typ.names}
				var others []*relock.Session
				for range typ.redis {
					r := relocktest.New(t)
					w.redis = append(w.redis, r)
					w.s = append(w.s, r.Session())
					others = append(others, r.Session())
				}
				w.lock, w.other = typ.make(w.s), typ.make(others)
				f(t, w)
			})
		})
	}
}

// each calls f for each Redis and the process's session on it.
func (w *world) each(f func(r *relocktest.Redis, s *relock.Session)) {
	for i, r := range w.redis {
		f(r, w.s[i])
	}
}

// hold locks.
func (w *world) hold() {
	w.t.Helper()
	require.NoError(w.t, w.lock.Lock(background))
}

// exclusive reports whether the lock excludes its own kind.
func (w *world) exclusive() bool { return !strings.HasSuffix(w.t.Name(), "/read") }

// stays matches fencing tokens and what Redis knows of sessions, which stay for a while by design.
var stays = regexp.MustCompile(`^relock_(fence|session):`)

// keys returns the other keys in Redis.
func (w *world) keys() (left []string) {
	for _, r := range w.redis {
		all, err := r.Client().Do(background, r.Client().B().Keys().Pattern("*").Build()).AsStrSlice()
		require.NoError(w.t, err)
		left = append(left, slices.DeleteFunc(all, stays.MatchString)...)
	}
	return left
}

// ends waits for the end of the hold, and returns how long that took.
func (w *world) ends() time.Duration {
	w.t.Helper()
	start := time.Now()
	select {
	case <-w.lock.Done():
	case <-time.After(time.Hour):
		w.t.Fatal("the hold has not ended within an hour")
	}
	require.ErrorIs(w.t, w.lock.Err(), relock.ErrLost)
	return time.Since(start)
}
