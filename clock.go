package relock

import (
	"sync/atomic"
	"time"
)

// clockRefresh is how long the clock goes without looking for a suspend.
const clockRefresh = 250 * time.Millisecond

// clock counts nanoseconds monotonically, through suspends as well. Go's monotonic
// clock stops while the machine is suspended and leases do not, so the clock adds
// what CLOCK_BOOTTIME is ahead. Reading that costs a system call; it is done at
// most every clockRefresh, and by the watchdog's timer as long as anything is held.
type clock struct {
	base    time.Time
	ahead   atomic.Int64 // boot time less monotonic time, less what it was at the start
	first   int64
	checked atomic.Int64 // monotonic time of the last look
}

func newClock() *clock {
	c := &clock{base: time.Now()}
	if boot, ok := bootNanos(); ok {
		c.first = boot - int64(time.Since(c.base))
	}
	return c
}

// now returns the time since the clock was made.
func (c *clock) now() int64 {
	mono := int64(time.Since(c.base))
	if mono-c.checked.Load() > int64(clockRefresh) {
		c.checked.Store(mono)
		c.refresh()
	}
	return mono + c.ahead.Load()
}

// refresh takes account of suspends. Differences below 20 ms are not suspends but
// the time between the two readings.
func (c *clock) refresh() {
	boot, ok := bootNanos()
	if !ok {
		return
	}
	ahead := boot - int64(time.Since(c.base)) - c.first
	if ahead-c.ahead.Load() > int64(20*time.Millisecond) {
		c.ahead.Store(ahead)
	}
}

// wall converts a time of this clock for people to read.
func (c *clock) wall(at int64) time.Time {
	return time.Now().Add(time.Duration(at - c.now()))
}
