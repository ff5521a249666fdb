package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Refresh is how often the clock looks for a suspend at most.
const Refresh = 250 * time.Millisecond

// Clock counts nanoseconds monotonically, including suspends. Looking for one costs two system
// calls, so Now does it at most once every Refresh. It is safe for concurrent use. Make it with
// New.
//
// Suspends are the difference of two clocks of the system. Go's own clock is not compared with
// either: in a bubble of testing/synctest it shows a time of its own.
type Clock struct {
	OnSuspend func() // called when a suspend is seen, unless nil; must not block, and is set before the first Now

	base    time.Time    // zero of the clock
	first   int64        // how long the machine had been suspended at base
	slept   atomic.Int64 // how much that has grown
	skipped atomic.Int64 // by Skip
	ahead   atomic.Int64 // slept and skipped, as seen by Now
	checked atomic.Int64 // time of the last look, without suspends
}

// New returns a clock that starts at zero.
func New() *Clock {
	c := &Clock{base: time.Now()}
	for range 2 { // one may be too small
		if total, ok := suspended(); ok {
			c.first = max(c.first, total)
		}
	}
	return c
}

// Now returns the nanoseconds since the clock was made.
func (c *Clock) Now() int64 {
	mono := int64(time.Since(c.base))
	if mono-c.checked.Load() > int64(Refresh) {
		c.checked.Store(mono)
		c.refresh()
	}
	return mono + c.ahead.Load()
}

// refresh adds the time of suspends. A difference below 20 ms is no suspend but the time
// between two readings.
func (c *Clock) refresh() {
	if total, ok := suspended(); ok && total-c.first-c.slept.Load() > int64(20*time.Millisecond) {
		c.slept.Store(total - c.first)
	}
	before := c.ahead.Load()
	if ahead := c.slept.Load() + c.skipped.Load(); ahead > before && c.ahead.CompareAndSwap(before, ahead) && c.OnSuspend != nil {
		c.OnSuspend()
	}
}

// Wall converts a time of this clock to wall-clock time, for display.
func (c *Clock) Wall(at int64) time.Time {
	return time.Now().Add(time.Duration(at - c.Now()))
}

// Skip advances the clock, as a suspend does that the next Now finds. It is for tests.
func (c *Clock) Skip(d time.Duration) {
	c.skipped.Add(int64(d))
	c.checked.Store(math.MinInt64 / 2)
}
