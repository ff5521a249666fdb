package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
)

// Counted from the grant, whether it was waited for or not, and whatever its owner locks again. Who
// waits gets in then. The last renewal sets what is left of the hold: the lease is that if it is longer.
func TestMaxHoldEndsOnTime(t *testing.T) {
	for _, row := range []struct{ most, last, wait time.Duration }{ // last is when the last renewal is sent
		{500 * time.Millisecond, 2 * (500 * time.Millisecond / 3), 0},
		{500 * time.Millisecond, 2 * (500 * time.Millisecond / 3), 20 * time.Second},
		{3 * time.Second, 2 * time.Second, 0},
		{3 * time.Second, 2 * time.Second, 20 * time.Second},
		{25 * time.Second, 2 * (25 * time.Second / 3), 0},
		{31 * time.Second, 30 * time.Second, 0},
		{time.Minute, 50 * time.Second, 0},
	} {
		most, last, wait := row.most, row.last, row.wait
		t.Run(fmt.Sprint(most, " after ", wait), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				seen := new(recorder)
				p, other := w.process(relock.WithObserver(seen)), w.process()
				owner := p.s[0].NewContext(background)
				l := p.lock(relock.WithMaxHold(most))
				if wait > 0 {
					before := other.opposite()
					require.NoError(t, before.Lock(background))
					time.AfterFunc(wait, func() { _ = before.Unlock(background) })
				}
				require.NoError(t, l.Lock(owner))
				start := time.Now()
				time.Sleep(most / 2)
				require.NoError(t, l.Lock(owner)) // which does not prolong it
				got := kit.Async(func() time.Time { _ = other.opposite().Lock(background); return time.Now() })
				left := (most - last).Truncate(time.Millisecond)
				took, want := lost(t, l).Sub(start), last+told(left)
				require.GreaterOrEqual(t, took, want-time.Millisecond)
				if wait > 0 { // a claim is renewed a little later than a lease, so less of it is margin
					want = most - 2*time.Millisecond
				}
				require.LessOrEqual(t, took, want+time.Millisecond)
				for range 2 {
					require.ErrorIs(t, l.Unlock(owner), relock.ErrLost)
				}
				require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
				require.LessOrEqual(t, (<-got).Sub(start), most+w.slow()+50*time.Millisecond)
				require.Contains(t, fmt.Sprint(seen.takeLosses()), "WithMaxHold")
			})
		})
	}
}

// Each hold has the bound of its own value, and all of it.
func TestMaxHoldIsOfEachOwner(t *testing.T) {
	const most = 40 * time.Second
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() {
			return
		}
		p := w.process(relock.WithTenure(time.Hour))
		bound := relock.WithMaxHold(most)
		l := p.held(bound)
		for _, opts := range [][]relock.LockOption{{bound}, nil, {bound}, {bound}} {
			next := p.lock(opts...)
			got := begin(background, next)
			time.Sleep(most * 3 / 4)
			require.NoError(t, l.Unlock(background))
			require.NoError(t, <-got)
			if l = next; opts == nil {
				time.Sleep(5 * most)
				require.NoError(t, l.Err(), "it has no bound")
			}
		}
		// Goroutines of one owner enter together, and set the bound each for itself: that was a race.
		owner, next := p.s[0].NewContext(background), p.lock(bound)
		got := kit.Async(func() error { return kit.Together(4, func(int) error { return next.Lock(owner) }) })
		time.Sleep(time.Second)
		require.NoError(t, l.Unlock(background))
		start := time.Now()
		require.NoError(t, <-got)
		require.InDelta(t, most, lost(t, next).Sub(start), float64(w.slow()+100*time.Millisecond))
		for range 4 {
			require.ErrorIs(t, next.Unlock(owner), relock.ErrLost)
		}
	})
}

// No lease in Redis reaches beyond the end of the hold, so the end of the process bounds it, too.
func TestMaxHoldBoundsADeadProcess(t *testing.T) {
	for _, most := range []time.Duration{500 * time.Millisecond, 31 * time.Second} {
		for _, dies := range []int{2, 50, 94} { // percent of it
			t.Run(fmt.Sprintf("%v at %d%%", most, dies), func(t *testing.T) {
				onEach(t, func(t *testing.T, w *world) {
					p, other := w.process(), w.process()
					start := time.Now()
					p.held(relock.WithMaxHold(most))
					for time.Since(start) < most*time.Duration(dies)/100 {
						time.Sleep(most / 50)
						require.LessOrEqual(t, time.Since(start)+w.ttl(), most)
					}
					p.partition()
					require.NoError(t, other.opposite().Lock(background))
					require.LessOrEqual(t, time.Since(start), most+w.slow()+50*time.Millisecond)
				})
			})
		}
	}
}

// What a Redlock takes again on a server that has lost its data does not outlast the hold.
func TestMaxHoldBoundsWhatARedlockRepairs(t *testing.T) {
	const most = 50 * time.Second
	alone(t, redlock, func(t *testing.T, w *world) {
		p := w.process()
		start := time.Now()
		l := p.held(relock.WithMaxHold(most))
		for i := range 45 {
			time.Sleep(time.Second)
			if i%10 == 5 {
				w.redis[i/10%3].Restart(false)
			}
			for i := range w.redis {
				require.LessOrEqual(t, time.Since(start)+w.one(i).ttl(), most)
			}
			require.NoError(t, l.Err())
		}
		require.Equal(t, 3, w.holders(), "it was not taken again")
		require.InDelta(t, most, lost(t, l).Sub(start), float64(500*time.Millisecond))
	})
}
