package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// The context ends at the instant in which the lock is given to the call, from within the process or by another one,
// alone or together with another call of its owner. Whichever the call sees first, it leaves nothing, and the other
// has its own hold.
func TestGrantAtTheInstantOfACancelLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(relock.WithTenure(time.Hour)), w.process()
		for i := range 24 {
			holder, l := []*process{p, other}[i%2].opposite(), p.lock()
			require.NoError(t, holder.Lock(background))
			owner, beside := background, i >= 16
			if beside {
				owner = p.s[0].NewContext(background)
			}
			ctx, cancel := context.WithCancel(owner)
			left := begin(ctx, l)
			var stays <-chan error
			if beside {
				stays = begin(owner, l)
			}
			time.Sleep(lease / 2)
			synctest.Wait()
			if i%4 < 2 { // the call has been told of its end, and is still queued
				cancel()
			}
			require.NoError(t, holder.Unlock(background))
			cancel()
			if beside {
				require.NoError(t, <-stays)
			}
			if err := <-left; err == nil {
				require.NoError(t, l.Unlock(owner))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			if beside {
				if len(w.typ.names) == 1 { // groups tell of the latest of the two
					require.NoError(t, l.Err(), "one hold of the owner is left")
				}
				require.NoError(t, l.Unlock(owner))
			}
			require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
			time.Sleep(lease / 3) // for what it gives back in the background
			require.True(t, w.free())
		}
	})
}

// The call leaves at any time around the requests by which it asks, queues and looks, of a lock that is
// held or becomes free. They are executed all the same, and nothing is left of it.
func TestWaiterThatLeavesIsInNoQueue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, holder := w.process(), w.process()
		const delay = 10 * time.Millisecond
		p.delay(delay)
		for i := range 20 {
			held, l := holder.opposite(), p.lock()
			require.NoError(t, held.Lock(background))
			ctx, cancel := context.WithTimeout(background, time.Duration(i/2)*delay)
			defer cancel()
			got := begin(ctx, l)
			if i%2 == 0 {
				time.Sleep(delay)
				require.NoError(t, held.Unlock(background))
			}
			if err := <-got; err == nil {
				require.NoError(t, l.Unlock(background))
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			time.Sleep(5 * time.Second)
			require.False(t, w.has("relock_queue:{a}", "relock_rwqueue:{a}"), "it is in the queue")
			if i%2 == 1 {
				require.NoError(t, held.Unlock(background))
				time.Sleep(time.Second)
			}
			require.True(t, w.free())
		}
	})
}

// The lock is on its way to a waiter that leaves: the next one does not wait for the end of the claim.
func TestGrantToOneThatHasLeftIsPassedOn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, far, next := w.process(), w.process(), w.process()
		for range 3 {
			held, l := p.opposite(), next.opposite()
			require.NoError(t, held.Lock(background))
			ctx, cancel := context.WithCancel(background)
			left := begin(ctx, far.lock())
			time.Sleep(time.Second)
			got := locking(l)
			heal := far.partition()
			require.NoError(t, held.Unlock(background))
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-left, context.Canceled)
			heal()
			w.hasSoon(l, got)
		}
	})
}

// What a release queues for the next goroutine of a process, which leaves just then, is given up: who
// waits elsewhere, before or after that, gets in at once.
func TestPlaceTakenForAGoroutineThatLeavesIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(relock.WithTenure(0)), w.process()
		for i := range 20 {
			held, leaves, theirs := p.opposite(), p.lock(), other.opposite()
			require.NoError(t, held.Lock(background))
			ctx, cancel := context.WithCancel(background)
			left := begin(ctx, leaves)
			time.Sleep(time.Second)
			var got <-chan error
			if i%2 == 0 {
				got = locking(theirs)
			}
			go cancel()
			require.NoError(t, held.Unlock(background))
			if err := <-left; err == nil {
				require.NoError(t, leaves.Unlock(background))
			}
			if i%2 == 1 {
				got = begin(background, theirs)
			}
			w.hasSoon(theirs, got)
		}
	})
}

// hasSoon checks that l is locked before a claim would have ended, and that nothing of it is left then.
func (w *world) hasSoon(l relock.Locker, got <-chan error) {
	w.t.Helper()
	require.LessOrEqual(w.t, took(func() { require.NoError(w.t, <-got) }), w.slow()+1100*time.Millisecond)
	require.NoError(w.t, l.Unlock(background))
	time.Sleep(5 * time.Second)
	require.True(w.t, w.free())
}
