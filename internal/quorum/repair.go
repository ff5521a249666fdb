package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/timing"
	"golang.org/x/sync/errgroup"
)

// How a held Redlock gets back the deployments it is not held on, because they were down or lost
// its part in a restart without data. Between attempts there is no goroutine.

// scheduleLocked schedules a repair after the pause, unless one is scheduled, or nothing can be
// repaired: a fixed lease does not start again, and the maximal hold may be over.
func (h *hold) scheduleLocked() {
	r := h.r
	if h.over || h.timer != nil || r.cfg.Lease > 0 || h.countLocked() == len(h.parts) ||
		r.cfg.MaxHold > 0 && r.e.Clock.Now()-h.since >= int64(r.cfg.MaxHold) {
		return
	}
	h.repairs.Add(1)
	h.timer = time.AfterFunc(timing.Jitter(h.pause), h.repair)
	h.pause = min(2*h.pause, r.lease/3)
}

// repair asks once for the missing parts.
func (h *hold) repair() {
	defer h.repairs.Done()
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
		eg.Go(func() error { h.repairPart(ctx, i); return nil })
	}
	_ = eg.Wait() // failures are tried again

	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer, h.stop = nil, nil
	h.scheduleLocked()
}

// repairPart asks once for a missing part.
func (h *hold) repairPart(ctx context.Context, i int) {
	n := h.r.nodes[i]
	h.discardPart(i)
	if !n.Engine().Connected() {
		return // its other connection does not answer, so this one would not
	}
	if err := h.take(ctx, i); err != nil || h.r.cfg.MaxHold == 0 {
		return
	}
	h.mu.Lock()
	got := h.parts[i].hold
	h.mu.Unlock()
	if got != nil { // its own maximal hold would begin now
		rest := int64(h.r.cfg.MaxHold) - (h.r.e.Clock.Now() - h.since)
		n.Engine().LimitRenewals(got.Lease, n.Engine().Clock.Now()+rest)
	}
}
