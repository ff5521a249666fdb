package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A session closes while it has one side, and other goroutines of it and of another
// session wait for the other: its holders are told, its own waiters end, nothing of it
// is left, and who waits elsewhere gets in at once.
func TestRWMutexCloseLetsTheOthersIn(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s, other := kit.NewSession(t, at), kit.NewSession(t, at) // with leases of 30 s
			holds := holdSide(t, s, holder)
			if holder == reading { // and one with a lease of its own
				holds = append(holds, rwHold{s.RWMutex("lock", relock.WithFixedLease(time.Hour)).RLocker(), kit.Background})
				kit.Lock(t, kit.Background, holds[len(holds)-1])
			}
			m := waiter.of(other.RWMutex("lock"))
			got := kit.Async(func() error { return m.Lock(kit.Background) })
			var ended []<-chan error
			for i := range 4 {
				l, ctx := waiter.of(s.RWMutex("lock")), []context.Context{kit.Background, s.NewContext(kit.Background)}[i%2]
				ended = append(ended, kit.Async(func() error { return l.Lock(ctx) }))
			}
			asks := 1 // Redis, for all of them, unless a writer of the session has the lock
			if holder == waiter {
				asks = 0
			}
			queuedHere(t, s, waiter, len(ended)-asks)
			start := time.Now()
			require.NoError(t, s.Close(kit.Background))
			for _, e := range ended {
				err := kit.Receive(t, e, "a waiter of the session to end")
				require.ErrorIs(t, err, relock.ErrClosed)
				require.NotErrorIs(t, err, context.Canceled)
			}
			require.NoError(t, kit.Receive(t, got, "the waiter of the other session"))
			require.Less(t, time.Since(start), kit.Quickly)
			allLost(t, holds)
			require.NoError(t, m.Err())
			require.Len(t, kit.HoldersOf(t, other, "lock"), 1)
			require.Equal(t, other.ID(), kit.HoldersOf(t, other, "lock")[0].Session)
			kit.Unlock(t, kit.Background, m)
			mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
			for _, l := range []relock.Locker{s.RWMutex("lock"), s.RWMutex("lock").RLocker()} {
				require.ErrorIs(t, l.Lock(kit.Background), relock.ErrClosed)
				_, err := l.TryLock(kit.Background)
				require.ErrorIs(t, err, relock.ErrClosed)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			}
		})
	})
}

// queuedHere waits until n goroutines of a session wait for a side in the session.
func queuedHere(t testing.TB, s *relock.Session, who side, n int) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the calls to wait", func() bool {
		readers, writers := peek.QueuedRW(s, "lock")
		return map[side]int{reading: readers, writing: writers}[who] == n
	})
}

// A session closes that only waits: nobody else is stopped by what it wanted.
func TestRWMutexCloseOfAWaitingSessionStopsNobody(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s, closes := kit.NewSession(t, at), kit.NewSession(t, at)
			held := holder.of(s.RWMutex("lock"))
			kit.Lock(t, kit.Background, held)
			ended := kit.Async(func() error { return waiter.of(closes.RWMutex("lock")).Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "the calls to wait", func() bool { return peek.Listens(closes, "lock") })
			require.NoError(t, closes.Close(kit.Background))
			require.ErrorIs(t, kit.Receive(t, ended, "the waiter to end"), relock.ErrClosed)
			require.NoError(t, held.Err())
			if holder == reading {
				require.True(t, tryRead(t, kit.NewSession(t, at).RWMutex("lock")), "no writer waits any more")
			}
			kit.Unlock(t, kit.Background, held)
			mustBeQuiet(t, kit.NewClient(t, at), "lock", s, closes)
		})
	})
}

// Readers and writers come and go while their session closes: each gets an answer, and
// nothing is left of them.
func TestRWMutexCloseAmidTraffic(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		client := kit.NewClient(t, at)
		for range 10 {
			s := kit.SessionOn(t, client)
			shared := s.RWMutex("lock")
			done := kit.Async(func() error {
				return kit.Together(12, func(i int) error {
					rw, ctx := shared, kit.Background
					if i%2 == 0 {
						rw = s.RWMutex("lock")
					}
					if i%3 == 0 {
						ctx = s.NewContext(ctx)
					}
					for n := i; ; n++ {
						l := rw.RLocker()
						if n%4 == 0 {
							l = rw
						}
						if err := l.Lock(ctx); err != nil {
							return ignore(err, relock.ErrClosed)
						}
						if err := l.Unlock(ctx); err != nil && !errors.Is(err, relock.ErrLost) {
							return err
						}
					}
				})
			})
			time.Sleep(5 * time.Millisecond)
			require.NoError(t, s.Close(kit.Background))
			require.NoError(t, kit.Receive(t, done, "every goroutine to notice"))
			mustBeQuiet(t, client, "lock", s)
		}
	})
}
