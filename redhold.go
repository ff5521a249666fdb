package relock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/relock-go/relock/internal/arbiter"
)

// redHold is one hold of a Redlock: what it has on each deployment.
type redHold struct {
	arbiter.Hold[struct{}]
	r         *Redlock
	anonymous bool
	more      int           // locked once more that often; guarded by Redlock.mu
	stop      chan struct{} // ends the repair
	repairs   sync.WaitGroup

	mu        sync.Mutex // protects the following
	parts     []part     // by deployment
	begun     bool       // it counts: the loss of a majority is to be told
	repairing bool
}

// part is what a redHold has on one deployment.
type part struct {
	hold *hold // nil: nothing
	lost bool  // it was lost, and its unlock is outstanding
}

// take asks one deployment. It records what it gets.
func (h *redHold) take(ctx context.Context, i int) error {
	n := h.r.nodes[i]
	ok, err := n.TryLock(ctx)
	if err != nil || !ok {
		return err
	}
	n.suspect.Store(0)
	got := n.s.table.HoldOf(&n.h, h.Owner)
	h.mu.Lock()
	h.parts[i] = part{hold: got, lost: got == nil}
	h.mu.Unlock()
	if got != nil {
		got.OnEnd(func(s arbiter.State) {
			if s == arbiter.Lost {
				h.lose(i, got)
			}
		})
	}
	return nil
}

// count returns how many deployments it is held on.
func (h *redHold) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.countLocked()
}

func (h *redHold) countLocked() (n int) {
	for _, p := range h.parts {
		if p.hold != nil && !p.lost {
			n++
		}
	}
	return n
}

// begin makes the hold count.
func (h *redHold) begin() {
	h.mu.Lock()
	h.begun = true
	h.mu.Unlock()
	h.lose(-1, nil)
}

// lose records the loss of a part. It is called with an arbiter's shard locked: it must
// not use an arbiter.
func (h *redHold) lose(i int, got *hold) {
	h.mu.Lock()
	if i >= 0 && h.parts[i].hold == got {
		h.parts[i].lost = true
	}
	n := h.countLocked()
	over := h.begun && n < h.r.quorum()
	if h.begun && !over && n < len(h.parts) && !h.repairing && !h.r.fixed && h.State() == arbiter.Live {
		h.repairing = true
		h.repairs.Go(h.repair) // ended by unlock, or by the loss of the majority
	}
	h.mu.Unlock()
	if over {
		h.End(arbiter.Lost)
	}
}

// repair asks the deployments that are missing again and again, until none is.
func (h *redHold) repair() {
	ctx := context.WithValue(context.Background(), ownerKey{}, h.Owner)
	done := h.Done()
	for pause := h.r.lease / 20; ; pause = min(2*pause, h.r.lease/3) {
		timer := time.NewTimer(jitter(pause))
		select {
		case <-timer.C:
		case <-h.stop:
			timer.Stop()
			return
		case <-done:
			timer.Stop()
			return
		}
		bounded, cancel := context.WithTimeout(ctx, h.r.bound())
		var eg errgroup.Group
		for _, i := range h.missing() {
			eg.Go(func() error {
				h.drop(i)
				return h.take(bounded, i)
			})
		}
		_ = eg.Wait() // what failed is asked again
		cancel()
		if h.whole() {
			return
		}
	}
}

// missing returns the deployments it is not held on.
func (h *redHold) missing() (is []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range h.parts {
		if p.hold == nil || p.lost {
			is = append(is, i)
		}
	}
	return is
}

// whole ends the repair if nothing is missing.
func (h *redHold) whole() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repairing = h.countLocked() < len(h.parts)
	return !h.repairing
}

// drop ends what is left of a part without waiting for Redis.
func (h *redHold) drop(i int) {
	h.mu.Lock()
	p := h.parts[i]
	h.parts[i] = part{}
	h.mu.Unlock()
	if p.hold != nil || p.lost {
		h.r.nodes[i].abandon(h.Owner)
	}
}

// giveBack ends every part without waiting for Redis.
func (h *redHold) giveBack() {
	for i := range h.parts {
		h.drop(i)
	}
}

// unlock ends the hold and waits for the deployments, for a bounded time each.
func (h *redHold) unlock(ctx context.Context) error {
	lost := !h.End(arbiter.Ended)
	h.mu.Lock()
	h.begun = false // no repair starts any more
	h.mu.Unlock()
	close(h.stop)
	h.repairs.Wait()
	errs := make([]error, len(h.parts))
	var eg errgroup.Group
	for i := range h.parts[1:] {
		eg.Go(func() error { errs[i+1] = h.release(ctx, i+1); return nil })
	}
	errs[0] = h.release(ctx, 0)
	_ = eg.Wait() // each error is in errs
	if lost {
		return failed("unlock", h.r.name, ErrLost)
	}
	good := 0
	for _, err := range errs {
		if err == nil {
			good++
		}
	}
	if good < h.r.quorum() {
		return failed("unlock", h.r.name, append([]error{ErrLost}, errs...)...)
	}
	return nil
}

// release ends one part. What was never there is released well.
func (h *redHold) release(ctx context.Context, i int) error {
	h.mu.Lock()
	p := h.parts[i]
	h.parts[i] = part{}
	h.mu.Unlock()
	if p.hold == nil && !p.lost {
		return nil
	}
	n := h.r.nodes[i]
	n.s.calls.Add(1)
	defer n.s.end()
	got, outcome := n.s.table.Exit(&n.h, h.Owner)
	if outcome != arbiter.Release {
		return n.exit(ctx, "unlock", h.Owner, got, outcome)
	}
	if n.s.clock.now() < n.suspect.Load() {
		n.s.releaseLater(got.Lease)
		return nil
	}
	err := n.s.unlockedWithin(ctx, got.Lease, h.r.bound())
	if err != nil && !errors.Is(err, ErrLost) {
		n.distrust(h.r.lease)
	}
	n.ended(got, err)
	return err
}

// deadline returns the time until which a majority is certain.
func (h *redHold) deadline() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ends []time.Time
	for i, p := range h.parts {
		if p.hold != nil && !p.lost {
			ends = append(ends, h.r.nodes[i].s.clock.wall(p.hold.Lease.deadline.Load()))
		}
	}
	q := h.r.quorum()
	if len(ends) < q {
		return time.Time{}, false
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[q-1], true
}
