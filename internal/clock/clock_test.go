package clock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestClockNeverGoesBack(t *testing.T) {
	c := New()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.Now()
			for range 20000 {
				c.look()
				now := c.Now()
				if now < last {
					t.Errorf("%d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
	if ahead := c.slept.Load(); ahead != 0 {
		t.Errorf("the clock is %v ahead, and there was no suspend", time.Duration(ahead))
	}
}

func TestClockGoesAtTheRightPace(t *testing.T) {
	c := New()
	start, from := time.Now(), c.Now()
	time.Sleep(30 * time.Millisecond)
	went, passed := c.Now()-from, time.Since(start)
	if went < int64(30*time.Millisecond) || went > int64(passed) {
		t.Fatalf("%v went by in %v", time.Duration(went), passed)
	}
}

// In a bubble Go's clock stands still while the process works, and the system's clocks go on.
// That is no suspend.
func TestClockInABubbleIgnoresRealTime(t *testing.T) {
	var past atomic.Bool
	time.AfterFunc(2*refresh, func() { past.Store(true) }) // outside: real time
	synctest.Test(t, func(t *testing.T) {
		c := New()
		for !past.Load() {
			runtime.Gosched()
		}
		const virtual = refresh + time.Millisecond // the next look is due
		time.Sleep(virtual)
		if now := time.Duration(c.Now()); now != virtual {
			t.Fatalf("after %v of virtual time the clock shows %v", virtual, now)
		}
	})
}
