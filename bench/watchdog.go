package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errStuck is the cause of the contexts that the watchdog cancels.
var errStuck = errors.New("stuck")

// A runner is one goroutine that locks and unlocks. The watchdog reads it.
type runner struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{}

	acquired atomic.Int64
	_        [64]byte // so that runners do not share cache lines

	out outcome // of this goroutine; to be read once it has ended
}

func newRunner(parent context.Context) *runner {
	ctx, cancel := context.WithCancelCause(parent)
	return &runner{ctx: ctx, cancel: cancel, ended: make(chan struct{})}
}

const (
	watchTick = 20 * time.Millisecond
	hungAfter = 3 * time.Second // after its context was cancelled
)

// watch returns when all runners have ended. When none of them gets anything done for
// as long as stuck says, after end, it cancels the contexts of those that wait, and
// counts them; and it gives up those that do not return for as long as hung says.
func watch(runners []*runner, end time.Time, stuck, hung time.Duration) (out outcome) {
	last, since := int64(-1), time.Now()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for open := runners; ; <-tick.C {
		var done int64
		open = stillOpen(open)
		if len(open) == 0 {
			break
		}
		for _, r := range runners {
			done += r.acquired.Load()
		}
		done -= int64(len(open)) // one that has ended is progress, too
		now := time.Now()
		if done != last || now.Before(end) {
			last, since = done, now
			continue
		}
		if now.Sub(since) < stuck {
			continue
		}
		for _, r := range open {
			r.cancel(errStuck)
		}
		out.Stuck = int64(len(open))
		out.Hung = awaitAll(open, hung)
		break
	}
	for _, r := range runners {
		select {
		case <-r.ended:
			r.cancel(nil)
			out.add(&r.out)
		default: // is still at it
		}
	}
	return out
}

func stillOpen(runners []*runner) (open []*runner) {
	for _, r := range runners {
		select {
		case <-r.ended:
		default:
			open = append(open, r)
		}
	}
	return open
}

// awaitAll waits for runners to end, and returns how many did not in time.
func awaitAll(runners []*runner, within time.Duration) (hung int64) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for _, r := range runners {
		select {
		case <-r.ended:
		case <-timeout.C:
			return int64(len(stillOpen(runners)))
		}
	}
	return 0
}
