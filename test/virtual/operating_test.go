package virtual_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// What docs/operating.md says about time.

// A hold outlives an outage of half its lease, even one that begins when its renewal is due.
// Then it does not outlive one that is longer than two thirds.
func TestHoldOutlivesOutagesOfHalfItsLease(t *testing.T) {
	outages := []struct {
		begins, lasts time.Duration // after the lock was acquired, and for how long
		lost          bool
	}{
		{lease/3 - time.Millisecond, lease / 2, false}, // just before the renewal
		{lease/3 - 100*time.Millisecond, 2*lease/3 + time.Second, true},
	}
	onEach(t, func(t *testing.T, w *world) {
		for _, c := range outages {
			p := w.process()
			l := p.held()
			time.Sleep(c.begins)
			heal := p.partition()
			time.Sleep(c.lasts)
			heal()
			time.Sleep(3 * time.Second)
			require.Equal(t, c.lost, l.Err() != nil, "an outage of %v after %v: %v", c.lasts, c.begins, l.Err())
			_ = l.Unlock(background)
			time.Sleep(lease) // until nothing is left, lost or not
		}
	})
}

// After DEL of its key a lock's holder is told by its next renewal, and who waits gets in
// within seconds; a goroutine of the same process when the holder is told.
func TestDeletedLockIsLostAtTheNextRenewalAndFreeAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		for from, most := range map[*process]time.Duration{p: lease/3 + 5*time.Second, other: 5 * time.Second} {
			l, waiter := p.held(), from.opposite()
			in := make(chan time.Time)
			go func() {
				_ = waiter.Lock(background)
				in <- time.Now()
			}()
			time.Sleep(5 * time.Second)
			deleted := time.Now()
			w.do(append([]string{"DEL"}, w.typ.names...)...)
			require.LessOrEqual(t, (<-in).Sub(deleted), most, "until the waiter got in")
			require.LessOrEqual(t, lost(t, l).Sub(deleted), lease/3+time.Second, "until the holder was told")
			require.ErrorIs(t, l.Unlock(background), relock.ErrLost)
			require.NoError(t, waiter.Err(), "the late Unlock ended another's hold")
			require.NoError(t, waiter.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}
