package quorum

import (
	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
)

// What a Redlock reports to the observers of its sessions.

func (r *Redlock) end(err error) engine.Ended {
	return engine.Ended{Name: r.name, Kind: engine.KindRedlock, Err: err}
}

// unlocked returns the last unlock of h, called now; nothing to report if it is none.
func (r *Redlock) unlocked(h *locked, outcome arbiter.Outcome) (u *engine.Unlocked) {
	if r.told != nil && (outcome == arbiter.Release || outcome == arbiter.Passed) {
		u = engine.NewUnlocked(h, r.e.Clock.Now())
	}
	return u
}

// reportLost reports that holds are lost.
func (r *Redlock) reportLost(holds []*locked, cause error) {
	for _, h := range holds {
		r.told.Lose(h, r.end(cause), r.e.Clock.Now())
	}
}

// reportLoss reports the loss of h, if it is lost, once.
func (h *hold) reportLoss(cause error) {
	h.mu.Lock()
	lost := h.quiet
	h.quiet = nil
	h.mu.Unlock()
	h.r.reportLost(lost, cause)
}
