package relock

import (
	"sync"
	"testing"
	"time"
)

func TestClockNeverGoesBack(t *testing.T) {
	c := newClock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.now()
			for range 20000 {
				c.refresh()
				now := c.now()
				if now < last {
					t.Errorf("%d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
	if ahead := c.ahead.Load(); ahead != 0 {
		t.Errorf("the clock is %v ahead, and there was no suspend", time.Duration(ahead))
	}
}

func TestClockGoesAtTheRightPace(t *testing.T) {
	c := newClock()
	start, from := time.Now(), c.now()
	time.Sleep(30 * time.Millisecond)
	went, passed := c.now()-from, time.Since(start)
	if went < int64(30*time.Millisecond) || went > int64(passed) {
		t.Fatalf("%v went by in %v", time.Duration(went), passed)
	}
}

// A suspend shows as a jump of the boot time, which the test brings about from the
// other end.
func TestClockCountsASuspend(t *testing.T) {
	if _, ok := bootNanos(); !ok {
		return // nothing to learn a suspend from
	}
	c := newClock()
	before := c.now()
	c.first -= int64(time.Hour)
	if c.now() > before+int64(time.Minute) {
		t.Fatal("the clock looked for a suspend at every call")
	}
	c.checked.Store(-int64(time.Minute)) // the last look is long ago
	if went := time.Duration(c.now() - before); went < time.Hour || went > time.Hour+time.Minute {
		t.Fatalf("after an hour's suspend the clock went on by %v", went)
	}
	// What is less than the time between two readings is none.
	ahead := c.ahead.Load()
	c.first -= int64(10 * time.Millisecond)
	c.refresh()
	if c.ahead.Load() != ahead {
		t.Fatal("a difference of 10 ms was taken for a suspend")
	}
	// A boot time that went back does not turn the clock back.
	c.first += int64(2 * time.Hour)
	c.refresh()
	if c.ahead.Load() != ahead {
		t.Fatal("the clock was turned back")
	}
}

func TestClockToldAsWallTime(t *testing.T) {
	c := newClock()
	at := c.wall(c.now() + int64(time.Hour))
	if d := time.Until(at); d > time.Hour || d < time.Hour-time.Minute {
		t.Fatalf("an hour from now is in %v", d)
	}
}

func TestJitterIsHalfToOneAndAHalf(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		if jitter(d) != 0 {
			t.Fatalf("jitter(%v) = %v", d, jitter(d))
		}
	}
	for _, d := range []time.Duration{1, 2, 3, time.Millisecond, time.Hour} {
		low, high := false, false
		for range 1000 {
			j := jitter(d)
			if j < d/2 || j >= d/2+d {
				t.Fatalf("jitter(%v) = %v", d, j)
			}
			low, high = low || j < d, high || j >= d
		}
		if d > 2 && (!low || !high) {
			t.Fatalf("jitter(%v) is always on one side", d)
		}
	}
}
