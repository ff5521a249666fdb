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

// A suspend shows as a jump of the time spent suspended, which the test brings about from
// the other end.
func TestClockCountsASuspend(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells of suspends")
	}
	c := New()
	before := c.Now()
	c.first -= int64(time.Hour)
	if c.Now() > before+int64(time.Minute) {
		t.Fatal("the clock looked for a suspend at every call")
	}
	c.checked.Store(-int64(time.Minute))   // the last look is long ago
	const readings = 20 * time.Millisecond // between the readings of the two clocks, at most
	if went := time.Duration(c.Now() - before); went < time.Hour-readings || went > time.Hour+time.Minute {
		t.Fatalf("after an hour's suspend the clock went on by %v", went)
	}
	// What is less than the time between two readings is none.
	ahead := c.slept.Load()
	c.first -= int64(10 * time.Millisecond)
	c.look()
	if c.slept.Load() != ahead {
		t.Fatal("a difference of 10 ms was taken for a suspend")
	}
	// A difference that shrank does not turn the clock back.
	c.first += int64(2 * time.Hour)
	c.look()
	if c.slept.Load() != ahead {
		t.Fatal("the clock was turned back")
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
