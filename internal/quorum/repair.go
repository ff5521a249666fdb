package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/timing"
)

// How a held Redlock gets back the deployments it is not held on, because they were down or lost
// its part in a restart without data. Between attempts there is no goroutine.

// scheduleLocked schedules a repair after the pause, unless one is scheduled, or nothing can be
// repaired: a fixed lease does not start again, and the maximal hold may be over.
func (h *hold) scheduleLocked() {
	r := h.r
	if h.over || h.timer != nil || r.cfg.Fixed || h.countLocked() == len(h.parts) ||
		r.cfg.MaxHold > 0 && h.rest() < leastRepair {
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
		if !h.parts[i].held() {
			missing = append(missing, i)
		}
	}
	h.mu.Unlock()

	timing.Together(len(missing), func(i int) { h.repairPart(ctx, missing[i]) }) // failures are tried again

	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer, h.stop = nil, nil
	h.scheduleLocked()
}

// repairPart asks once for a missing part.
func (h *hold) repairPart(ctx context.Context, i int) {
	n := h.r.nodes[i]
	h.discardPart(ctx, i)
	if !n.Engine().Connected() {
		return // its other connection does not answer, so this one would not
	}
	m := n.Mutex
	if h.r.cfg.MaxHold > 0 { // the part must end with the others
		cfg := h.r.cfg
		if cfg.MaxHold = h.rest(); cfg.MaxHold < leastRepair {
			return
		}
		bounded := n.Engine().Mutex(n.Name(), cfg)
		m = &bounded
	}
	_ = h.take(ctx, i, m)
}

// rest returns what is left of the maximal hold.
func (h *hold) rest() time.Duration {
	return h.r.cfg.MaxHold - time.Duration(h.r.e.Clock.Now()-h.since)
}

// leastRepair is the shortest rest of a hold for which a part is asked for.
const leastRepair = 10 * time.Millisecond
