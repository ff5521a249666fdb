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

// redHold is one acquisition of a Redlock: what this process has on each deployment,
// whichever of its goroutines has the lock now.
//
// Locks are taken in this order: the shard of a deployment's table, that of the table of
// Redlocks, mu.
type redHold struct {
	r     *Redlock
	owner *arbiter.Owner // of the parts
	since int64          // start of the tenure, by the clock of r.s

	mends sync.WaitGroup // repairs that are scheduled or run

	mu    sync.Mutex // protects the following
	parts []part     // by deployment
	begun bool       // it counts: the loss of a majority is to be told, that of others to be repaired
	over  bool       // it is being given up: nothing is taken any more
	timer *time.Timer
	pause time.Duration      // before the next repair
	stop  context.CancelFunc // ends the repair that runs
}

// part is what a redHold has on one deployment.
type part struct {
	hold *hold               // nil: nothing
	lost bool                // it was lost, and its unlock is outstanding
	ends func(arbiter.State) // called at its end
}

func newRedHold(r *Redlock) *redHold {
	h := &redHold{r: r, owner: new(arbiter.Owner), since: r.s.clock.now(), parts: make([]part, len(r.nodes))}
	for i := range h.parts {
		p := &h.parts[i]
		p.ends = func(s arbiter.State) {
			if s == arbiter.Lost {
				h.lose(p)
			}
		}
	}
	return h
}

// take asks one deployment, under a context with the owner of the parts, and records
// what it gets.
func (h *redHold) take(ctx context.Context, i int) error {
	n := h.r.nodes[i]
	ok, err := n.TryLock(ctx)
	if err != nil || !ok {
		return err
	}
	n.suspect.Store(0)
	got := n.s.table.HoldOf(&n.h, h.owner)
	h.mu.Lock()
	over := h.over
	p := &h.parts[i]
	if !over {
		p.hold, p.lost = got, got == nil
	}
	h.mu.Unlock()
	if over {
		n.abandon(h.owner)
	} else if got != nil {
		got.OnEnd(&p.ends)
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
	for i := range h.parts {
		if p := &h.parts[i]; p.hold != nil && !p.lost {
			n++
		}
	}
	return n
}

// left returns for how long a majority of the deployments is certain yet.
func (h *redHold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var buf [9]time.Duration
	left := buf[:0]
	for i := range h.parts {
		if p := &h.parts[i]; p.hold != nil && !p.lost {
			left = append(left, time.Duration(p.hold.Lease.deadline.Load()-h.r.nodes[i].s.clock.now()))
		}
	}
	q := h.r.quorum()
	if len(left) < q {
		return 0
	}
	slices.Sort(left)
	return left[len(left)-q]
}

// begin makes the hold count.
func (h *redHold) begin() {
	h.mu.Lock()
	h.begun = true
	h.mu.Unlock()
	h.lose(nil)
}

// lose records the loss of a part, and what it means. It is called with a shard of a
// deployment's table locked.
func (h *redHold) lose(p *part) {
	h.mu.Lock()
	if p != nil && p.hold != nil {
		p.lost = true
	}
	counts := h.begun && !h.over
	fails := counts && h.countLocked() < h.r.quorum()
	if counts && !fails {
		h.pause = h.r.lease / 20
		h.scheduleLocked()
	}
	h.mu.Unlock()
	if fails {
		h.fail()
	}
}

// fail ends the hold because a majority is not certain any more.
func (h *redHold) fail() {
	h.r.s.reds.Lose(h.r.h.Name(), h)
	time.AfterFunc(0, h.discard) // not here: it uses the arbiters
}

// drop ends what is left of a part without waiting for Redis.
func (h *redHold) drop(i int) {
	h.mu.Lock()
	p := &h.parts[i]
	had := p.hold != nil || p.lost
	p.hold, p.lost = nil, false
	h.mu.Unlock()
	if had {
		h.r.nodes[i].abandon(h.owner)
	}
}

// discard gives every part back without waiting for Redis.
func (h *redHold) discard() {
	h.end()
	for i := range h.parts {
		h.drop(i)
	}
}

// end ends the repairs, and sees to it that nothing is taken any more.
func (h *redHold) end() {
	h.mu.Lock()
	h.over = true
	if h.timer != nil && h.timer.Stop() {
		h.mends.Done()
	}
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.mends.Wait()
}

// release gives every part back, and waits for a bounded time for the deployments that
// are likely to answer, or for all if those are no majority.
func (h *redHold) release(ctx context.Context) error {
	h.end()
	waited := make([]bool, len(h.parts))
	well, _ := h.r.asked()
	for _, i := range well {
		waited[i] = true
	}
	freed := make([]freed, len(h.parts))
	var eg errgroup.Group
	for i := range h.parts[1:] {
		eg.Go(func() error { freed[i+1] = h.free(ctx, i+1, waited[i+1]); return nil })
	}
	freed[0] = h.free(ctx, 0, waited[0])
	_ = eg.Wait() // each error is in freed

	r, held := h.r, 0
	errs := []error{ErrLost}
	for _, f := range freed {
		if f.held {
			held++
		}
		if f.err != nil {
			errs = append(errs, f.err)
		}
	}
	if held < r.quorum() || len(errs)-1 >= r.quorum() {
		return failed("unlock", r.name, errs...)
	}
	return nil
}

// freed is what became of the release of a part.
type freed struct {
	held bool  // it was held until then
	err  error // why it is not confirmed, or was not held
}

// free ends one part, and waits until that is confirmed if so asked.
func (h *redHold) free(ctx context.Context, i int, wait bool) (f freed) {
	h.mu.Lock()
	p := &h.parts[i]
	had := p.hold != nil || p.lost
	p.hold, p.lost = nil, false
	h.mu.Unlock()
	if !had {
		return f
	}
	n := h.r.nodes[i]
	n.s.calls.Add(1)
	defer n.s.end()
	got, outcome := n.s.table.Exit(&n.h, h.owner)
	if outcome != arbiter.Release {
		f.err = n.exit(ctx, "unlock", h.owner, got, outcome)
		f.held = f.err == nil
		return f
	}
	f.held = true
	if !wait {
		n.s.releaseLater(got.Lease)
		f.err = errUnwell
	} else if told, err := n.s.unlockedWithin(ctx, got.Lease, h.r.grace()); err != nil {
		f.held, f.err = told >= 0, err
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			n.distrust()
		}
	}
	n.ended(got, f.err)
	return f
}
