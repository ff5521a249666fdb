package clock

import (
	"sync/atomic"
	"time"
)

// refresh is how often a clock looks for a suspend at most, which costs two system calls.
const refresh = 250 * time.Millisecond

// Clock counts nanoseconds monotonically, including suspends. It is safe for concurrent use. Make it
// with New.
type Clock struct {
	base    time.Time    // zero of the clock
	first   int64        // how long the machine had been suspended at base: the larger of two readings
	slept   atomic.Int64 // how much that has grown
	skipped atomic.Int64 // by Skip
	checked atomic.Int64 // time of the last look, without suspends
}

// New returns a clock that starts at zero.
func New() *Clock { return &Clock{base: time.Now(), first: max(suspended(), suspended())} }

// Now returns the nanoseconds since the clock was made.
func (c *Clock) Now() int64 {
	mono := int64(time.Since(c.base))
	if mono-c.checked.Load() > int64(refresh) {
		c.checked.Store(mono)
		c.look()
	}
	return mono + c.slept.Load() + c.skipped.Load()
}

// look adds the time of suspends. A difference below 20 ms is no suspend but the time
// between two readings.
func (c *Clock) look() {
	before := c.slept.Load()
	if total := suspended() - c.first; total-before > int64(20*time.Millisecond) {
		c.slept.CompareAndSwap(before, total)
	}
}

// Skip advances the clock, as a suspend does. It is for tests.
func (c *Clock) Skip(d time.Duration) { c.skipped.Add(int64(d)) }
