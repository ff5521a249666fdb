package timing

import (
	"testing"
	"time"
)

func TestJitterIsHalfToOneAndAHalf(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second} {
		if Jitter(d) != 0 {
			t.Fatalf("jitter(%v) = %v", d, Jitter(d))
		}
	}
	for _, d := range []time.Duration{1, 2, 3, time.Millisecond, time.Hour} {
		low, high := false, false
		for range 1000 {
			j := Jitter(d)
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
