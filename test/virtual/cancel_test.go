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
// alone or together with another call of its owner. Whichever the call sees first, it leaves nothing, also of a place
// that was taken for it, and the other call has its own hold. By the events each wait and each hold has an end.
func TestGrantAtTheInstantOfACancelLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		r := new(recorder)
		// One passes the lock on, one queues again for its next goroutine.
		seen, other := relock.WithObserver(r), w.process()
		passes, queues := w.process(seen, relock.WithTenure(time.Hour)), w.process(seen, relock.WithTenure(0))
		for i := range 48 {
			p, beside, waits := []*process{passes, queues}[i%2], i/4%2 == 1, i/8%2 == 1
			holder, l, theirs := []*process{p, other}[i/2%2].opposite(), p.lock(), other.opposite()
			require.NoError(t, holder.Lock(background))
			owner := background
			if beside {
				owner = p.s[0].NewContext(background)
			}
			ctx, cancel := context.WithCancel(owner)
			left := begin(ctx, l)
			var stays, got <-chan error
			if beside {
				stays = begin(owner, l)
			}
			time.Sleep(lease / 2)
			if waits {
				got = lockAndUnlock(theirs)
				time.Sleep(time.Second)
			}
			synctest.Wait()
			switch i / 16 {
			case 0: // the call has been told of its end, and is still queued
				cancel()
			case 1:
				go cancel()
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
			if !waits {
				got = lockAndUnlock(theirs)
			}
			w.endsSoon(got)
			require.Zero(t, r.held, "held, by the events")
			require.Zero(t, r.waits, "waiting, by the events")
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
			held := p.opposite()
			require.NoError(t, held.Lock(background))
			ctx, cancel := context.WithCancel(background)
			left := begin(ctx, far.lock())
			time.Sleep(time.Second)
			got := lockAndUnlock(next.opposite())
			time.Sleep(time.Second)
			heal := far.partition()
			require.NoError(t, held.Unlock(background))
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-left, context.Canceled)
			heal()
			w.endsSoon(got)
		}
	})
}

// endsSoon checks that a turn ends before a claim would have ended, and that nothing is left of the lock then.
func (w *world) endsSoon(turn <-chan error) {
	w.t.Helper()
	require.LessOrEqual(w.t, took(func() { require.NoError(w.t, <-turn) }), w.slow()+1100*time.Millisecond)
	time.Sleep(5 * time.Second)
	require.True(w.t, w.free())
}
