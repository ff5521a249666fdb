package relock

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// How a Redlock that is held gets back the deployments that it is not held on: they
// were down, or have lost its part by a restart without data. It has no goroutine while
// it waits for its next attempt.

var errUnwell = errors.New("the deployment did not answer lately; it is released in the background")

// scheduleLocked has the missing parts asked for after the pause, unless that is under
// way, or makes no sense: a fixed lease does not start anew, nor does one for which no
// time is left.
func (h *redHold) scheduleLocked() {
	r := h.r
	if h.over || h.timer != nil || r.cfg.lease > 0 || h.countLocked() == len(h.parts) ||
		r.cfg.max > 0 && r.s.clock.now()-h.since >= int64(r.cfg.max) {
		return
	}
	h.mends.Add(1)
	h.timer = time.AfterFunc(jitter(h.pause), h.mend)
	h.pause = min(2*h.pause, r.lease/3)
}

// mend asks for the missing parts once.
func (h *redHold) mend() {
	defer h.mends.Done()
	ctx, cancel := h.bounded(context.Background())
	defer cancel()
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return
	}
	h.stop = cancel
	var missing []int
	for i := range h.parts {
		if p := &h.parts[i]; p.hold == nil || p.lost {
			missing = append(missing, i)
		}
	}
	h.mu.Unlock()

	var eg errgroup.Group
	for _, i := range missing {
		eg.Go(func() error { h.mendPart(ctx, i); return nil })
	}
	_ = eg.Wait() // what failed is asked again

	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer, h.stop = nil, nil
	h.scheduleLocked()
}

func (h *redHold) mendPart(ctx context.Context, i int) {
	n := h.r.nodes[i]
	h.drop(i)
	if !n.s.hub.up.Load() {
		return // it does not answer on its other connection either
	}
	if err := h.take(ctx, i); err != nil || h.r.cfg.max == 0 {
		return
	}
	h.mu.Lock()
	got := h.parts[i].hold
	h.mu.Unlock()
	if got != nil { // its own bound would begin now
		end := int64(h.r.cfg.max) - (h.r.s.clock.now() - h.since)
		n.s.watch.limit(got.Lease, n.s.clock.now()+end)
	}
}
