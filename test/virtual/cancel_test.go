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
			got := make(chan error, 1)
			go func() { got <- l.Lock(ctx) }()
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
