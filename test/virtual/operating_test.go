package virtual_test

import (
	"testing"
	"time"

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
// within seconds.
func TestDeletedLockIsLostAtTheNextRenewalAndFreeAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, other := w.process(), w.process()
		l := p.held()
		waiter := other.lock()
		if !w.exclusive() {
			waiter = other.s[0].RWMutex("a") // a writer
		}
		in := make(chan time.Time)
		go func() {
			_ = waiter.Lock(background)
			in <- time.Now()
		}()
		time.Sleep(5 * time.Second)
		deleted := time.Now()
		for _, r := range w.redis {
			require.NoError(t, r.Client().Do(background, r.Client().B().Del().Key(w.typ.names...).Build()).Error())
		}
		require.LessOrEqual(t, (<-in).Sub(deleted), 5*time.Second, "until the waiter got in")
		<-l.Done()
		require.LessOrEqual(t, time.Since(deleted), lease/3+time.Second, "until the holder was told")
		require.Error(t, l.Err())
		require.NoError(t, waiter.Unlock(background))
	})
}
