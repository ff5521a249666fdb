package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
)

// Unlock ends one Lock of r. The last one waits for each deployment for a bounded time; a release
// that is not confirmed by then continues in the background. It returns ErrLost if no majority
// had the lock until then.
func (r *Redlock) Unlock(ctx context.Context) error {
	const op = "unlock"
	if err := r.usable(op); err != nil {
		return err
	}
	o := arbiter.OwnerOf(ctx)
	h, outcome := r.afterExit(r.queue.Exit(&r.handle, o, arbiter.Write))
	told := r.unlocked(h, outcome)
	var err error
	switch outcome {
	case arbiter.NotHeld:
		return lockerr.New(op, r.name, lockerr.ErrNotHeld)
	case arbiter.WasLost:
		return lockerr.New(op, r.name, lockerr.ErrLost)
	case arbiter.Release:
		err = h.Lease.release(ctx)
		r.queue.Released(r.handle.Name(), h.Lease)
	}
	if err != nil {
		told.Lost(r.told, r.end(lease.ErrGone))
	} else {
		told.Report(ctx, r.told, r.end(nil))
	}
	if o != nil && h.Owner != o {
		// o's own hold was lost; an earlier unlock was counted for that one instead of for h.
		return lockerr.New(op, r.name, lockerr.ErrLost)
	}
	return err
}

// ReleaseInBackground ends one Lock of o without waiting for Redis.
func (r *Redlock) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	h, outcome := r.afterExit(r.queue.Exit(&r.handle, o, arbiter.Write))
	told := r.unlocked(h, outcome)
	r.finishInBackground(ctx, h, outcome)
	told.Report(ctx, r.told, r.end(nil))
}

// giveBack ends one Lock of h, which was granted to a call that does not want it, and of which
// nobody was told.
func (r *Redlock) giveBack(h *locked) {
	h, outcome := r.afterExit(r.queue.Return(&r.handle, h))
	r.finishInBackground(context.Background(), h, outcome)
}

// afterExit handles a loss that the arbiter was the first to find. For the caller such a hold was
// lost, like any other.
func (r *Redlock) afterExit(h *locked, outcome arbiter.Outcome, lost []*locked) (*locked, arbiter.Outcome) {
	if outcome == arbiter.Expired {
		h.Lease.discard(context.Background())
		r.reportLost(lost, lease.ErrExpired)
		outcome = arbiter.WasLost
	}
	return h, outcome
}

func (r *Redlock) finishInBackground(ctx context.Context, h *locked, outcome arbiter.Outcome) {
	if outcome == arbiter.Release {
		h.Lease.discard(ctx)
		r.queue.Released(r.handle.Name(), h.Lease)
	}
}

// release gives every part back. It waits for the deployments that are likely to answer, for a
// bounded time.
func (h *hold) release(ctx context.Context) error {
	h.end()
	wait := make([]time.Duration, len(h.parts))
	healthy, _ := h.r.candidates()
	for _, i := range healthy {
		wait[i] = h.r.grace()
	}
	results := make([]released, len(h.parts))
	timing.Together(len(h.parts), func(i int) { results[i] = h.releasePart(ctx, i, wait[i]) })

	r, held := h.r, 0
	errs := []error{lockerr.ErrLost}
	for _, f := range results {
		if f.held {
			held++
		}
		if f.err != nil {
			errs = append(errs, f.err)
		}
	}
	if held < r.quorum() {
		return lockerr.New("unlock", r.name, errs...)
	}
	return nil
}

// released is the result of the release of a part.
type released struct {
	held bool  // it was held until then
	err  error // why the release is not confirmed, or it was not held
}

// releasePart gives one part back, and waits so long for the deployment.
func (h *hold) releasePart(ctx context.Context, i int, wait time.Duration) (f released) {
	if !h.forgetPart(i) {
		return f
	}
	n := h.r.nodes[i]
	f.held, f.err = n.UnlockWithin(ctx, h.owner, wait)
	if f.err == engine.ErrUnconfirmed {
		n.markSuspect()
	}
	return f
}

// discard gives every part back without waiting for Redis. ctx is for observers.
func (h *hold) discard(ctx context.Context) {
	h.end()
	for i := range h.parts {
		h.discardPart(ctx, i)
	}
}

// discardPart gives one part back without waiting for Redis.
func (h *hold) discardPart(ctx context.Context, i int) {
	if h.forgetPart(i) {
		h.r.nodes[i].ReleaseInBackground(ctx, h.owner)
	}
}

// forgetPart makes a part empty, and reports whether its Mutex must be unlocked.
func (h *hold) forgetPart(i int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.parts[i]
	had := p.hold != nil || p.lost
	p.hold, p.lost = nil, false
	return had
}
