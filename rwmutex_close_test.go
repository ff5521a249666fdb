package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A session closes while it has one side, and other goroutines of it and of another
// session wait for the other: its holders are told, its own waiters end, nothing of it
// is left, and who waits elsewhere gets in at once.
func TestRWMutexCloseLetsTheOthersIn(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		onBoth(t, func(t *testing.T, at addressed) {
			s, other := newSession(t, at), newSession(t, at) // with leases of 30 s
			holds := holdSide(t, s, holder)
			if holder == reading { // and one with a lease of its own
				holds = append(holds, rwHold{s.RWMutex("lock", relock.WithLease(time.Hour)).RLocker(), background})
				lock(t, background, holds[len(holds)-1])
			}
			m := waiter.of(other.RWMutex("lock"))
			got := async(func() error { return m.Lock(background) })
			var ended []<-chan error
			for i := range 4 {
				l, ctx := waiter.of(s.RWMutex("lock")), []context.Context{background, s.NewContext(background)}[i%2]
				ended = append(ended, async(func() error { return l.Lock(ctx) }))
			}
			asks := 1 // Redis, for all of them, unless a writer of the session has the lock
			if holder == waiter {
				asks = 0
			}
			queuedHere(t, s, waiter, len(ended)-asks)
			start := time.Now()
			require.NoError(t, s.Close(background))
			for _, e := range ended {
				err := receive(t, e, "a waiter of the session to end")
				require.ErrorIs(t, err, relock.ErrClosed)
				require.NotErrorIs(t, err, context.Canceled)
			}
			require.NoError(t, receive(t, got, "the waiter of the other session"))
			require.Less(t, time.Since(start), quickly)
			allLost(t, holds)
			require.NoError(t, m.Err())
			require.Len(t, holdersOf(t, other, "lock"), 1)
			require.Equal(t, other.ID(), holdersOf(t, other, "lock")[0].Session)
			unlock(t, background, m)
			mustBeQuiet(t, newClient(t, at), "lock", s, other)
			for _, l := range []relock.Locker{s.RWMutex("lock"), s.RWMutex("lock").RLocker()} {
				require.ErrorIs(t, l.Lock(background), relock.ErrClosed)
				_, err := l.TryLock(background)
				require.ErrorIs(t, err, relock.ErrClosed)
				require.ErrorIs(t, l.Unlock(background), relock.ErrNotHeld)
			}
		})
	})
}

// queuedHere waits until n goroutines of a session wait for a side in the session.
func queuedHere(t testing.TB, s *relock.Session, who side, n int) {
	t.Helper()
	redistest.Eventually(t, soon, "the calls to wait", func() bool {
		readers, writers := peek.QueuedRW(s, "lock")
		return map[side]int{reading: readers, writing: writers}[who] == n
	})
}

// A session closes that only waits: nobody else is stopped by what it wanted.
func TestRWMutexCloseOfAWaitingSessionStopsNobody(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		onBoth(t, func(t *testing.T, at addressed) {
			s, closes := newSession(t, at), newSession(t, at)
			held := holder.of(s.RWMutex("lock"))
			lock(t, background, held)
			ended := async(func() error { return waiter.of(closes.RWMutex("lock")).Lock(background) })
			redistest.Eventually(t, soon, "the calls to wait", func() bool { return peek.Listens(closes, "lock") })
			require.NoError(t, closes.Close(background))
			require.ErrorIs(t, receive(t, ended, "the waiter to end"), relock.ErrClosed)
			require.NoError(t, held.Err())
			if holder == reading {
				require.True(t, tryRead(t, newSession(t, at).RWMutex("lock")), "no writer waits any more")
			}
			unlock(t, background, held)
			mustBeQuiet(t, newClient(t, at), "lock", s, closes)
		})
	})
}

// Readers and writers come and go while their session closes: each gets an answer, and
// nothing is left of them.
func TestRWMutexCloseAmidTraffic(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		client := newClient(t, at)
		for range 10 {
			s := sessionOn(t, client)
			shared := s.RWMutex("lock")
			done := async(func() error {
				return together(12, func(i int) error {
					rw, ctx := shared, background
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
			require.NoError(t, s.Close(background))
			require.NoError(t, receive(t, done, "every goroutine to notice"))
			mustBeQuiet(t, client, "lock", s)
		}
	})
}
