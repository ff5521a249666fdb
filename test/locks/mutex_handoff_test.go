package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// takeTurns takes the lock through the first value, queues the others behind it one after the other,
// unlocks, and checks that they have their turns in order of arrival, each with a greater token and
// after the end of the hold before.
func takeTurns(t *testing.T, s *relock.Session, first kit.FencedLocker, waiters []kit.FencedLocker) {
	t.Helper()
	kit.Lock(t, kit.Background, first)
	last, token, turns := first, first.FencingToken(), 0
	var got []<-chan error
	for i, m := range waiters {
		got = append(got, kit.Async(func() error {
			if err := m.Lock(kit.Background); err != nil {
				return err
			}
			if turns != i || m.FencingToken() <= token || m != last && last.Err() == nil {
				return fmt.Errorf("turn %d of %d: token %d after %d; the one before: %w", turns, i, m.FencingToken(), token, last.Err())
			}
			last, token, turns = m, m.FencingToken(), turns+1
			return m.Unlock(kit.Background)
		}))
		redistest.Eventually(t, kit.Soon, "the next to queue", func() bool {
			_, writers := peek.QueuedRW(s, "lock")
			return peek.Queued(s, "lock") == i+1 || writers == i+1
		})
	}
	kit.Unlock(t, kit.Background, first)
	for _, c := range got {
		require.NoError(t, kit.Receive(t, c, "a waiter to have its turn"))
	}
}

// Goroutines of a process take turns, within its tenure by one acquisition, which serves up to 1024
// holds, the token block. A fixed lease is one owner's time: what is left of it is not for the next,
// and who wants a fixed lease wants all of it.
func TestWithinItsTenureAProcessSendsOneAcquire(t *testing.T) {
	fixed := []relock.LockOption{relock.WithFixedLease(time.Minute)}
	for kind, of := range map[string]func(s *relock.Session, o ...relock.LockOption) kit.FencedLocker{
		"Mutex":   func(s *relock.Session, o ...relock.LockOption) kit.FencedLocker { return s.Mutex("lock", o...) },
		"RWMutex": func(s *relock.Session, o ...relock.LockOption) kit.FencedLocker { return s.RWMutex("lock", o...) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			for _, c := range []struct {
				what     string
				tenure   time.Duration
				waiters  int
				opts     [2][]relock.LockOption // of every other one
				acquired int64
			}{
				{"within the tenure", time.Hour, 60, [2][]relock.LockOption{}, 1},
				{"as far as the tokens go", time.Hour, 1024 + 100, [2][]relock.LockOption{}, 2},
				{"no tenure", 0, 60, [2][]relock.LockOption{}, 61},
				{"the tenure has passed", time.Nanosecond, 60, [2][]relock.LockOption{}, 61},
				{"fixed leases", time.Hour, 20, [2][]relock.LockOption{fixed, fixed}, 21},
				{"every other lease is fixed", time.Hour, 20, [2][]relock.LockOption{nil, fixed}, 20}, // only the first can take over
			} {
				s := kit.NewSession(t, server, relock.WithTenure(c.tenure))
				first, waiters := of(s), []kit.FencedLocker{}
				for i := range c.waiters {
					waiters = append(waiters, of(s, c.opts[i%2]...))
				}
				takeTurns(t, s, first, waiters[:1]) // the server knows the scripts
				kit.Lock(t, kit.Background, first)
				_, err := s.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				kit.Receive(t, first.Done(), "the loss")
				require.ErrorIs(t, first.Unlock(kit.Background), relock.ErrLost)
				time.Sleep(5 * time.Millisecond) // Redis's clock passes the tokens: the next block is a whole one
				cost := trafficOf(server, func() { takeTurns(t, s, first, waiters) })
				require.Equal(t, c.acquired, cost.acquired, c.what)
				require.LessOrEqual(t, cost.scripts, 2*c.acquired+1, c.what)
			}
		})
	}
}

// Each of the goroutines that a Redis hold is passed to has a hold of its own.
func TestAHoldThatIsHandedOnHasEnded(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at, relock.WithTenure(time.Hour))
		a, b, owner := s.Mutex("lock"), s.Mutex("lock"), s.NewContext(kit.Background)
		kit.Warm(t, a)
		kit.Lock(t, owner, a)
		done, token := a.Done(), a.FencingToken()
		got := kit.Async(func() error { return b.Lock(kit.Background) })
		kit.Queued(t, s, "lock", 1)
		before := kit.HoldersOf(t, s, "lock")
		kit.Unlock(t, owner, a)
		require.NoError(t, kit.Receive(t, got, "the next to get in"))
		require.Equal(t, before, kit.HoldersOf(t, s, "lock"), "Redis sees no change")
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, a.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, a.Unlock(kit.Background), relock.ErrNotHeld)
		require.False(t, kit.TryLock(t, owner, a))
		require.NoError(t, b.Err())
		require.False(t, kit.IsClosed(b.Done()))
		require.Greater(t, b.FencingToken(), token)
		forceUnlock(t, s, b)
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld, "the loss is not the first one's")
		require.ErrorIs(t, b.Unlock(kit.Background), relock.ErrLost)
	})
}

// A writer does not pass the lock to the next writer of its process when readers of the
// process wait: they go first.
func TestRWMutexReadersGoBeforeTheNextWriter(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at, relock.WithTenure(time.Hour))
		for range 5 {
			first, next, reader := s.RWMutex("lock"), s.RWMutex("lock"), s.RWMutex("lock").RLocker()
			kit.Lock(t, kit.Background, first)
			write := kit.Async(func() error { return next.Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "the writer to queue", func() bool { _, n := peek.QueuedRW(s, "lock"); return n == 1 })
			read := []<-chan error{}
			for range 2 {
				read = append(read, kit.Async(func() error { return reader.Lock(kit.Background) }))
			}
			redistest.Eventually(t, kit.Soon, "a reader to queue behind the one that asks", func() bool { n, _ := peek.QueuedRW(s, "lock"); return n == 1 })
			redistest.Eventually(t, kit.Soon, "that one to have a place in Redis", func() bool { return peek.Waits(s, "lock") })
			kit.Unlock(t, kit.Background, first)
			for _, r := range read {
				require.NoError(t, kit.Receive(t, r, "a reader"))
			}
			require.Empty(t, write, "a writer beside readers")
			kit.Unlock(t, kit.Background, reader)
			kit.Unlock(t, kit.Background, reader)
			require.NoError(t, kit.Receive(t, write, "the writer that came first"))
			kit.Unlock(t, kit.Background, next)
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s)
	})
}
