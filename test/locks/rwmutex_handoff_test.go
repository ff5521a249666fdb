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

// Writers of a process have the lock in order of arrival, and pass it on without asking
// Redis within a tenure; a fixed lease is not passed. Each has a hold and a token of
// its own.
func TestRWMutexWritersTakeTurns(t *testing.T) {
	t.Parallel()
	const waiters = 30
	server := redistest.Start(t)
	for _, c := range []struct {
		what     string
		tenure   time.Duration
		opts     []relock.LockOption
		acquired int64
	}{
		{"within the tenure", time.Hour, nil, 1},
		{"no tenure", 0, nil, waiters + 1},
		{"fixed leases", time.Hour, []relock.LockOption{relock.WithFixedLease(time.Minute)}, waiters + 1},
	} {
		s := kit.NewSession(t, server, relock.WithTenure(c.tenure))
		warmUpRW(t, s)
		kit.Lock(t, kit.Background, s.RWMutex("lock"))
		_, err := s.ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond) // Redis's clock passes the tokens: the next block is a whole one
		cost := trafficOf(server, func() {
			first := s.RWMutex("lock", c.opts...)
			kit.Lock(t, kit.Background, first)
			turns, token, last := make(chan int, waiters), first.FencingToken(), first
			var got []<-chan error
			for i := range waiters {
				m := s.RWMutex("lock", c.opts...)
				before := last
				last = m
				got = append(got, kit.Async(func() error {
					if err := m.Lock(kit.Background); err != nil {
						return err
					}
					turns <- i
					if m.FencingToken() <= token || before.Err() == nil || !kit.IsClosed(before.Done()) {
						return fmt.Errorf("turn %d: token %d after %d; the one before: %w", i, m.FencingToken(), token, before.Err())
					}
					token = m.FencingToken()
					return m.Unlock(kit.Background)
				}))
				redistest.Eventually(t, kit.Soon, "the writer to queue", func() bool { _, n := peek.QueuedRW(s, "lock"); return n == i+1 })
			}
			kit.Unlock(t, kit.Background, first)
			for i := range waiters {
				require.NoError(t, kit.Receive(t, got[i], c.what))
				require.Equal(t, i, <-turns, c.what)
			}
		})
		require.Equal(t, c.acquired, cost.acquired, c.what)
		require.LessOrEqual(t, cost.scripts, 2*c.acquired+1, c.what)
	}
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

// Who waits in another session is woken by the unlock, on either side: many rounds
// together take less than the timers that would wake it otherwise.
func TestRWMutexWakesAnotherSession(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			const rounds = 40
			s, other := kit.NewSession(t, at), kit.NewSession(t, at)
			l, m := holder.of(s.RWMutex("lock")), waiter.of(other.RWMutex("lock"))
			waited := time.Duration(0)
			for range rounds {
				kit.Lock(t, kit.Background, l)
				got := kit.Async(func() error { return m.Lock(kit.Background) })
				redistest.Eventually(t, kit.Soon, "the other session to listen", func() bool { return peek.Waits(other, "lock") })
				watch := kit.StartWatch()
				kit.Unlock(t, kit.Background, l)
				require.NoError(t, kit.Receive(t, got, "the other one to get in"))
				waited += watch.Took()
				kit.Unlock(t, kit.Background, m)
			}
			require.Less(t, waited, rounds*100*time.Millisecond, "a waiter looks every 170 to 500 ms")
		})
	})
}
