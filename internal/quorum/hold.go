package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lease"
)

// hold is one acquisition of a Redlock: what this process holds on each deployment, whichever of
// its goroutines has the lock now.
type hold struct {
	r     *Redlock
	owner *arbiter.Owner // of the parts
	since int64          // start of the tenure, by the clock of r.e

	repairs sync.WaitGroup // repairs that are scheduled or run

	mu    sync.Mutex         // protects the following
	parts []part             // by deployment
	begun bool               // the lock is held: lost parts are repaired, or the hold is lost
	over  bool               // the lock is given up: no part is taken any more
	timer *time.Timer        // of the repair that is scheduled or runs
	pause time.Duration      // before the next repair
	stop  context.CancelFunc // ends the repair that runs
	quiet []*locked          // lost, and not reported yet
}

// part is what a hold has on one deployment.
type part struct {
	hold   *lease.Hold         // nil: nothing
	lost   bool                // hold was lost, and must still be unlocked
	onEnd  func(arbiter.State) // called at the end of hold
	onLoss func(cause error)   // called when its loss was reported
}

func (p *part) held() bool { return p.hold != nil && !p.lost }

func newHold(r *Redlock) *hold {
	h := &hold{r: r, owner: new(arbiter.Owner), since: r.e.Clock.Now(), parts: make([]part, len(r.nodes))}
	for i := range h.parts {
		p := &h.parts[i]
		p.onEnd = func(s arbiter.State) {
			if s == arbiter.Lost {
				h.losePart(p)
			}
		}
		p.onLoss = h.reportLoss
	}
	return h
}

// take asks one deployment for m, its lock, under a context with the owner of the parts, and records
// the result.
func (h *hold) take(ctx context.Context, i int, m *engine.Mutex) error {
	n := h.r.nodes[i]
	ok, err := m.TryLock(ctx)
	if err == nil && !ok && m.Unconfirmed() {
		return engine.ErrUnconfirmed // it is not taken
	}
	if err != nil || !ok {
		return err
	}
	n.clear()
	got := n.HoldOf(h.owner)
	h.mu.Lock()
	over := h.over
	p := &h.parts[i]
	if !over {
		p.hold, p.lost = got, got == nil
	}
	h.mu.Unlock()
	if over {
		n.ReleaseInBackground(ctx, h.owner)
	} else if got != nil {
		got.OnEnd(&p.onEnd)
		if h.r.told != nil {
			got.AfterLoss(&p.onLoss)
		}
	}
	return nil
}

// count returns how many deployments hold a part.
func (h *hold) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.countLocked()
}

func (h *hold) countLocked() (n int) {
	for i := range h.parts {
		if h.parts[i].held() {
			n++
		}
	}
	return n
}

// has reports whether deployment i holds its part.
func (h *hold) has(i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.parts[i].held()
}

// left returns how long a majority of the deployments is certain.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var buf [9]time.Duration
	left := buf[:0]
	for i := range h.parts {
		if p := &h.parts[i]; p.held() {
			left = append(left, h.r.nodes[i].Engine().Left(p.hold.Lease))
		}
	}
	q := h.r.quorum()
	if len(left) < q {
		return 0
	}
	slices.Sort(left)
	return left[len(left)-q]
}

// begin begins the hold once the queue knows it.
func (h *hold) begin() {
	h.mu.Lock()
	h.begun = true
	lost := h.assessLocked()
	h.mu.Unlock()
	if lost {
		h.expire()
	}
}

// losePart records the loss of a part. It is called with a shard of a deployment's arbiter
// locked.
func (h *hold) losePart(p *part) {
	h.mu.Lock()
	if p.hold != nil {
		p.lost = true
	}
	lost := h.assessLocked()
	h.mu.Unlock()
	if lost {
		h.lose()
	}
}

// assessLocked reports whether the hold is lost because it has no majority any more. If it has
// one, assessLocked schedules the repair of missing parts.
func (h *hold) assessLocked() (lost bool) {
	if !h.begun || h.over {
		return false
	}
	if h.countLocked() < h.r.quorum() {
		return true
	}
	h.pause = h.r.lease / 20
	h.scheduleLocked()
	return false
}

// lose ends the hold because a majority is not certain any more. The loss is to be reported when
// nothing is locked: see reportLoss.
func (h *hold) lose() {
	lost := h.r.queue.Lose(h.r.handle.Name(), h)
	h.mu.Lock()
	h.quiet = append(h.quiet, lost...)
	h.mu.Unlock()
	time.AfterFunc(0, func() { // not here: it uses the arbiters
		h.discard(context.Background())
		if h.r.told == nil {
			h.reportLoss(lease.ErrExpired) // to a group; no part does
		}
	})
}

// expire ends the hold like lose, and reports it. Nothing must be locked.
func (h *hold) expire() {
	h.lose()
	h.reportLoss(h.cause())
}

// cause returns why a part was lost.
func (h *hold) cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.parts {
		if p := &h.parts[i]; p.lost && p.hold != nil && p.hold.Cause() != nil {
			return p.hold.Cause()
		}
	}
	return lease.ErrExpired
}

// end ends the repairs. No part is taken any more.
func (h *hold) end() {
	h.mu.Lock()
	h.over = true
	if h.timer != nil && h.timer.Stop() {
		h.repairs.Done()
	}
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.repairs.Wait()
}
