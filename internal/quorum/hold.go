package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// hold is one acquisition of a Redlock: what this process holds on each deployment, whichever of
// its goroutines has the lock. A deployment that is missing, since it was down or has lost its
// part, is asked again while the hold lasts; between attempts there is no goroutine.
type hold struct {
	local.Lease
	r     *Redlock
	since int64 // by r.now: when the first request was sent

	chosen chan struct{} // closed when first is, or when no share is taken any more

	mu     sync.Mutex       // protects the following
	parts  []*acquire.Share // by deployment; nil: it has none. Those in it are where no later token is smaller
	first  int64            // the hold's first token: the largest of a majority's
	state  state
	repair *time.Timer   // that is scheduled or runs
	pause  time.Duration // before the next one
	cause  error         // of the last loss of a part, or of the hold's
}

// state is the state of a hold.
type state uint8

const (
	asked   state = iota // deployments are asked for the lock
	raising              // the first token is chosen; the lock is not held yet
	held                 // the lock is held: lost parts are repaired, or the hold is lost
	ended                // it is given up or lost: no part is taken any more
)

func newHold(r *Redlock) *hold {
	h := &hold{r: r, since: r.now(), chosen: make(chan struct{}), parts: make([]*acquire.Share, len(r.nodes))}
	h.For, h.Takes = h, r.cfg.Takes(r.lease)
	return h
}

// of returns what h, a hold of a Redlock, has of the deployments.
func of(h acquire.Held) *hold { return h.(*local.Hold).Lease.For.(*hold) }

// take asks one deployment for its part, whose grant it tells to granted, waits until the first
// token is chosen, and raises the deployment's to that. Then the part is the hold's. take reports
// whether the token was chosen among this deployment's and others: one that is larger, since its
// grant came too late, counts for no majority.
func (h *hold) take(caller context.Context, i int, age time.Duration, granted func(answer)) (bool, error) {
	var lost, kept bool // guarded by h.mu
	p, err := h.try(caller, i, func(cause error) {
		h.mu.Lock()
		lost, h.cause = true, cause
		if kept {
			h.parts[i] = nil
		}
		h.mu.Unlock()
		h.assess()
	})
	granted(answer{i, p != nil, err})
	if p == nil {
		return false, err
	}
	p.MinHold -= age
	<-h.chosen
	first, raised, err := h.raise(caller, i, p)
	h.mu.Lock()
	kept = raised && !lost && h.state != ended && h.parts[i] == nil // a deployment that loses its data may grant two requests
	if kept {
		h.parts[i] = p
	}
	h.mu.Unlock()
	if !kept {
		h.r.nodes[i].DropShare(p)
	}
	return kept && p.Token <= first, err
}

// try asks one deployment. Its token is one to choose from, until that is done.
func (h *hold) try(caller context.Context, i int, lost func(cause error)) (*acquire.Share, error) {
	ctx, stop := h.bounded(caller)
	defer stop()
	most := h.r.cfg.MaxHold
	if most > 0 {
		most -= time.Duration(h.r.now() - h.since) // the parts end together
		if most <= 0 {
			return nil, nil
		}
	}
	h.mu.Lock()
	repairs := h.state == held
	h.mu.Unlock()
	p, err := h.r.nodes[i].TryShare(ctx, most, repairs, lost)
	if p != nil && h.r.twice(i) { // which is known since its session has started
		h.r.nodes[i].DropShare(p)
		return nil, errTwice
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p != nil && h.state == asked {
		h.first = max(h.first, p.Token)
	}
	return p, err
}

// choose chooses the largest token until now for the first of the hold.
func (h *hold) choose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.Token, h.Top = raising, h.first, h.first+wire.Tokens(h.first)-1
	close(h.chosen)
}

// raise raises the token of a deployment to the hold's first, where it has p, unless it has issued
// that itself. This second round trip, after a majority has granted the lock, makes the tokens of a
// Redlock grow:
//
// Of two holds, majorities have confirmed the tokens, and have a deployment in common. It had their
// parts one after the other. While it had the former one, its token was the former hold's first or
// larger; later it issued one for the other hold, which is larger still, and of which the other
// hold's first is not smaller.
func (h *hold) raise(caller context.Context, i int, p *acquire.Share) (first int64, raised bool, err error) {
	h.mu.Lock()
	first, over := h.first, h.state == ended
	h.mu.Unlock()
	if raised = !over && p.Token == first; !over && !raised {
		ctx, stop := h.bounded(caller)
		defer stop()
		raised, err = h.r.nodes[i].RaiseShare(ctx, p, first)
	}
	return first, raised, err
}

// bounded returns a context for a request to one deployment. The end of caller ends it only while
// the lock is not held: later the part belongs to the hold.
func (h *hold) bounded(caller context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), h.r.bound())
	forget := context.AfterFunc(caller, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.state != held {
			cancel()
		}
	})
	return ctx, func() { forget(); cancel() }
}

// left returns how long a majority of the deployments is valid.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var buf [9]time.Duration
	left := buf[:0]
	for i, p := range h.parts {
		if p != nil {
			left = append(left, h.r.nodes[i].ShareLeft(p))
		}
	}
	q := h.r.quorum()
	if len(left) < q {
		return 0
	}
	slices.Sort(left)
	return left[len(left)-q]
}

// with returns the deployments that have a part, or those that have none.
func with(part bool, parts []*acquire.Share) (deployments []int) {
	for i, p := range parts {
		if (p != nil) == part {
			deployments = append(deployments, i)
		}
	}
	return deployments
}

// begin begins the hold once the table knows it.
func (h *hold) begin() {
	h.mu.Lock()
	h.state = held
	h.mu.Unlock()
	h.assess()
}

// assess loses the hold if it has no majority any more, and otherwise schedules the repair of
// missing parts.
func (h *hold) assess() {
	h.mu.Lock()
	lost := h.state == held && len(with(true, h.parts)) < h.r.quorum()
	if h.state == held && !lost {
		h.pause = h.r.lease / 20
		h.scheduleLocked()
	}
	cause := h.cause
	h.mu.Unlock()
	if lost {
		h.lose(cause)
	}
}

// why returns the cause if the hold is lost now: that of its last part if no majority is left, else
// that it has run out.
func (h *hold) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil && len(with(true, h.parts)) < h.r.quorum() {
		return h.cause
	}
	return lockerr.ErrExpired
}

// lose ends the hold because a majority is not valid any more.
func (h *hold) lose(cause error) {
	h.mu.Lock()
	if h.state != ended {
		h.cause = cause // also for calls that find the hold without parts before the table has lost it
	}
	h.mu.Unlock()
	_ = h.drop(context.Background())
	lost, _ := h.r.table.Lost(h.r.owned.Name, &h.Lease, cause, h.r.now())
	for _, l := range lost {
		l.Tell()
		acquire.ReportLoss(h.r.observer, l, h.r.name, event.Redlock)
	}
}

// drop gives every share back without waiting for Redis. The next call of this process may ask, if
// an unlock has ended the hold.
func (h *hold) drop(context.Context) error {
	defer h.released()
	for i, p := range h.end() {
		if p != nil {
			h.r.nodes[i].DropShare(p)
		}
	}
	return nil
}

// released tells the table that the hold is released.
func (h *hold) released() { h.r.table.Released(h.r.owned.Name, &h.Lease, h.r.now()) }

// end ends the repairs, and returns the parts. No part is taken any more.
func (h *hold) end() (parts []*acquire.Share) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == asked {
		close(h.chosen)
	}
	h.state = ended
	if h.repair != nil {
		h.repair.Stop()
	}
	parts, h.parts = h.parts, make([]*acquire.Share, len(h.parts))
	return parts
}

// leastRepair is the shortest rest of a hold for which a part is asked for.
const leastRepair = 10 * time.Millisecond

// scheduleLocked schedules a repair after the pause, unless one is scheduled, or nothing can be
// repaired: a fixed lease does not start again, and the maximal hold may be over.
func (h *hold) scheduleLocked() {
	r := h.r
	if h.state != held || h.repair != nil || r.cfg.Fixed || len(with(false, h.parts)) == 0 ||
		r.cfg.MaxHold > 0 && r.cfg.MaxHold-time.Duration(r.now()-h.since) < leastRepair {
		return
	}
	h.repair = time.AfterFunc(timing.Jitter(h.pause), h.repairParts)
	h.pause = min(2*h.pause, r.lease/3)
}

// repairParts asks once for the missing parts; failures are tried again.
func (h *hold) repairParts() {
	h.mu.Lock()
	missing := with(false, h.parts)
	if h.state != held {
		missing = nil
	}
	h.mu.Unlock()
	missing = slices.DeleteFunc(missing, func(i int) bool {
		return !h.r.nodes[i].Node().Proto.Up.Load() // if its other connection does not answer, this one would not
	})
	age := time.Duration(h.r.now() - h.since)
	answers := ask(missing, func(i int) (bool, error) { return h.take(context.Background(), i, age, func(answer) {}) })
	for range missing {
		<-answers // what failed is tried again
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repair = nil
	h.scheduleLocked()
}
