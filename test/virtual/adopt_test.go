package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// Goroutines of the process that adopts, or hands off, wait for the lock in Redis and behind each other.
func TestAdoptDoesNotWaitForWaitersOfItsProcess(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(relock.WithTenure(time.Hour)), w.process(relock.WithTenure(time.Hour))
		for _, from := range []*process{a, b} {
			for range 5 {
				ticket := from.handsOff(time.Minute)
				n, wait := 0, []<-chan error{}
				for i := range 6 {
					p := []*process{a, b}[i%2]
					wait = append(wait, kit.Async(func() error {
						return relock.Do(background, p.mutex(), func(context.Context) error {
							was := n
							time.Sleep(10 * time.Millisecond)
							n = was + 1
							return nil
						})
					}))
				}
				time.Sleep(time.Second)
				adopted := b.adopts(ticket)
				more := lockAndUnlock(b.mutex())
				was := n
				time.Sleep(2 * lease)
				require.NoError(t, adopted.Err())
				require.Zero(t, n)
				n = was
				require.NoError(t, adopted.Unlock(background))
				for _, w := range append(wait, more) {
					require.NoError(t, <-w)
				}
				require.Equal(t, 6, n)
				time.Sleep(time.Second)
				require.True(t, w.free())
			}
		}
	})
}

// The owner enters again what it has adopted, also with a call that waits for it, and unlocks it anywhere.
func TestAdoptedLockIsItsOwners(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		ticket := a.handsOff(time.Hour)
		ctx := b.s[0].NewContext(background)
		waits, waiter := make(chan error, 1), b.mutex()
		go func() { waits <- waiter.Lock(ctx) }() // ends when it is let in
		time.Sleep(time.Second)
		m, err := b.s[0].Adopt(ctx, ticket)
		require.NoError(t, err)
		require.NoError(t, <-waits)
		require.Equal(t, m.Token(), waiter.FencingToken())
		again, err := b.mutex().Acquire(ctx)
		require.NoError(t, err)
		_, err = m.Handoff(ctx, time.Hour)
		require.ErrorContains(t, err, "other holds of its owner")
		require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
		require.NoError(t, again.Err())
		require.NoError(t, b.mutex().Unlock(ctx))
		require.ErrorIs(t, waiter.Unlock(ctx), relock.ErrNotHeld)
		ticket, err = again.Handoff(ctx, time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)

		// What it has lost it unlocks first; that uses up no ticket.
		require.NoError(t, a.adopts(ticket).Unlock(background))
		l := a.mutex()
		require.NoError(t, l.Lock(ctx))
		w.redis[0].Lose("a")
		lost(t, l)
		ticket = a.handsOff(time.Hour)
		_, err = a.s[0].Adopt(ctx, ticket)
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, l.Unlock(ctx), relock.ErrLost)
		m, err = a.s[0].Adopt(ctx, ticket)
		require.NoError(t, err)
		require.NoError(t, m.Unlock(ctx))
	})
}

// The options of the first hold end with it; those of Adopt hold from then on.
func TestAdoptHasItsOwnOptions(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		for _, before := range []relock.LockOption{
			relock.WithFixedLease(time.Second), relock.WithMaxHold(time.Second), relock.WithMinHold(time.Hour), relock.WithLease(time.Second),
		} {
			for _, opt := range []struct {
				relock.LockOption
				ends time.Duration
			}{
				{relock.WithLease(5 * time.Second), 0},
				{relock.WithFixedLease(time.Minute), time.Minute},
				{relock.WithMaxHold(time.Minute), time.Minute},
			} {
				m := a.taken(before)
				ticket, err := m.Handoff(background, lease)
				require.NoError(t, err)
				time.Sleep(lease - time.Second)
				start, adopted := time.Now(), b.adopts(ticket, opt)
				if opt.ends == 0 {
					require.InDelta(t, 5*time.Second, w.ttl(), float64(time.Second))
					time.Sleep(time.Minute)
					require.NoError(t, adopted.Unlock(background))
					continue
				}
				require.InDelta(t, opt.ends, lost(t, adopted).Sub(start), float64(time.Second))
				require.ErrorIs(t, adopted.Unlock(background), relock.ErrExpired)
			}
		}
		start := time.Now()
		require.NoError(t, b.adopts(a.handsOff(lease), relock.WithMinHold(time.Minute)).Unlock(background))
		require.NoError(t, <-lockAndUnlock(a.mutex()))
		require.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
	})
}

// Who adopts may learn only then that it has lost the lock before: it must unlock first.
func TestAdoptByWhoHasLostTheLockUnnoticed(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		ctx := a.s[0].NewContext(background)
		m := a.mutex()
		require.NoError(t, m.Lock(ctx))
		w.do("DEL", "a")
		ticket := b.handsOff(time.Minute)
		_, err := a.s[0].Adopt(ctx, ticket)
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorContains(t, err, "unlock the lost hold")
		require.ErrorIs(t, m.Unlock(ctx), relock.ErrGone)
		time.Sleep(time.Second)
		require.True(t, w.free())
	})
}
