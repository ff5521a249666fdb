package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// The context ends at the instant in which the lock is given to the call, from within the process or
// by another one. Whichever the call sees first, nothing is left.
func TestGrantAtTheInstantOfACancelLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(relock.WithTenure(time.Hour)), w.process()
		for i := range 20 {
			holder, l := p.opposite(), []*process{p, other}[i%2].lock()
			require.NoError(t, holder.Lock(background))
			ctx, cancel := context.WithCancel(background)
			got := begin(ctx, l)
			time.Sleep(lease / 2)
			synctest.Wait()
			if i%4 < 2 { // the call has been told of its end, and is still queued
				cancel()
			}
			require.NoError(t, holder.Unlock(background))
			cancel()
			if err := <-got; err == nil {
				require.NoError(t, l.Unlock(background))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			time.Sleep(lease / 3) // for what it gives back in the background
			require.True(t, w.free())
		}
	})
}

// A call that leaves while its owner is let in together with others gives back its own hold, and not
// theirs.
func TestCancelOfOneOfAnOwnersWaitersLeavesTheOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for i := range 8 {
			held, l, owner := []*process{p, other}[i%2].opposite(), p.lock(), p.s[0].NewContext(background)
			require.NoError(t, held.Lock(background))
			ctx, cancel := context.WithCancel(owner)
			left, got := make(chan error, 1), make(chan error, 1)
			go func() { left <- l.Lock(ctx) }()
			go func() { got <- l.Lock(owner) }()
			time.Sleep(lease / 2)
			synctest.Wait()
			if i%4 < 2 {
				cancel()
			}
			require.NoError(t, held.Unlock(background))
			cancel()
			require.NoError(t, <-got)
			if err := <-left; err == nil {
				require.NoError(t, l.Unlock(owner))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			if len(w.typ.names) == 1 { // groups tell of the latest of the two
				require.NoError(t, l.Err(), "one hold of the owner is left")
			}
			require.NoError(t, l.Unlock(owner))
			require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
			time.Sleep(lease / 3)
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
			for _, r := range w.redis {
				n, err := r.Client().Do(background, r.Client().B().Exists().Key("relock_queue:{a}", "relock_rwqueue:{a}").Build()).AsInt64()
				require.NoError(t, err)
				require.Zero(t, n, "it is in the queue")
			}
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
			l := next.opposite()
			got := begin(background, l)
			time.Sleep(time.Second)
			heal := far.partition()
			require.NoError(t, held.Unlock(background))
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-left, context.Canceled)
			start := time.Now()
			heal()
			require.NoError(t, <-got)
			require.LessOrEqual(t, time.Since(start), w.slow()+time.Second, "a claim is longer")
			require.NoError(t, l.Unlock(background))
			time.Sleep(5 * time.Second)
			require.True(t, w.free())
		}
	})
}

// What a release queues for the next goroutine of a process, which leaves just then, is given up: who
// waits elsewhere gets in at once.
func TestPlaceTakenForAGoroutineThatLeavesIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(relock.WithTenure(0)), w.process()
		for i := range 20 {
			held, leaves, theirs := p.opposite(), p.lock(), other.opposite()
			require.NoError(t, held.Lock(background))
			ctx, cancel := context.WithCancel(background)
			left, got := make(chan error, 1), make(chan error, 1)
			go func() { left <- leaves.Lock(ctx) }()
			time.Sleep(time.Second)
			lock := func() { go func() { got <- theirs.Lock(background) }(); time.Sleep(time.Second) }
			if i%2 == 0 {
				lock()
			}
			go cancel()
			require.NoError(t, held.Unlock(background))
			if err := <-left; err == nil {
				require.NoError(t, leaves.Unlock(background))
			}
			start := time.Now()
			if i%2 == 1 {
				lock()
			}
			require.NoError(t, <-got)
			require.LessOrEqual(t, time.Since(start), w.slow()+1100*time.Millisecond, "a claim is longer")
			require.NoError(t, theirs.Unlock(background))
			time.Sleep(5 * time.Second)
			require.True(t, w.free())
		}
	})
}
