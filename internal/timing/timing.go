package timing

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between attempts start at MinBackoff and double up to MaxBackoff.
const (
	MinBackoff = 5 * time.Millisecond
	MaxBackoff = time.Second
)

// Signal puts a signal into c, which should have room for one, unless there is one. It never
// blocks.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Random returns a random number from 0 to n-1. All that relock does at random times has them from
// here, so that a simulation can repeat them.
var Random = rand.Int64N

// Jitter returns a random duration from half of d to one and a half times d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + time.Duration(Random(int64(d)))
}

// Within returns a context that is cancelled after d, without a deadline: rueidis would close its
// connection when that passes.
func Within(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// Pause sleeps for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d) // not a context's, which would use ctx for a moment longer
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
