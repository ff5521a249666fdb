package clock

import (
	"testing"
	"time"
)

// A suspend shows as a jump of the time spent suspended, which the test brings about from
// the other end.
func TestClockCountsASuspend(t *testing.T) {
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
