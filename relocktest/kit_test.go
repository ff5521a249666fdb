package relocktest_test

import (
	"context"
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
	lease  = 30 * time.Second
	margin = lease/500 + 2*time.Millisecond // by which it is assumed to be shorter
	told   = lease - margin - time.Millisecond
	renew  = lease / 3
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

// each calls f for each Redis and the process's session on it, and returns a function that calls
// what f has returned.
func (w *world) each(f func(r *relocktest.Redis, s *relock.Session) (undo func())) (undo func()) {
	var undos []func()
	for i, r := range w.redis {
		undos = append(undos, f(r, w.s[i]))
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

// hold locks, and fails the test if that does not succeed within an hour.
func (w *world) hold() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	require.NoError(w.t, w.lock.Lock(ctx))
}

// exclusive reports whether the lock excludes its own kind.
func (w *world) exclusive() bool { return !strings.HasSuffix(w.t.Name(), "/read") }

// keys returns the keys in Redis except fencing tokens and labels of sessions, which stay for a
// while by design.
func (w *world) keys() (left []string) {
	for _, r := range w.redis {
		c := r.Client()
		all, err := c.Do(background, c.B().Keys().Pattern("*").Build()).AsStrSlice()
		require.NoError(w.t, err)
		for _, k := range all {
			if !strings.HasPrefix(k, "relock_fence:") && !strings.HasPrefix(k, "relock_seen:") && !strings.HasPrefix(k, "relock_session:") {
				left = append(left, k)
			}
		}
	}
	return left
}

// unlocked reports whether nobody holds the lock in Redis.
func (w *world) unlocked() bool {
	w.t.Helper()
	for _, r := range w.redis {
		s := r.Session()
		for _, name := range w.names {
			state, err := s.Inspect(background, name)
			require.NoError(w.t, err)
			if state.Mode != relock.Unlocked {
				return false
			}
		}
	}
	return true
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
