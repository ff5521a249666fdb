package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// How a Redlock is acquired.
//
// Calls that ask at the same time may each get some of the deployments, and none of them a
// majority. They give back what they got and try again after a random pause, which grows until
// one of them succeeds. While another call holds the lock nobody gets anything, and all sleep
// until they hear of an unlock.

// splitPause is about how long a call takes from hearing of an unlock to having asked.
const splitPause = time.Millisecond

// bound is how long an acquisition waits for one deployment.
func (r *Redlock) bound() time.Duration {
	return min(max(r.lease/20, 20*time.Millisecond), time.Second)
}

// grace is how long Unlock waits for one deployment. It may be longer: a deployment that does not
// answer is suspect then, and delays the next call no more.
func (r *Redlock) grace() time.Duration {
	return max(r.bound(), min(r.lease/2, time.Second))
}

// validity returns what is left of a lease that took elapsed to acquire: less 1 % for the drift of
// the clocks, and 2 ms for the grain of Redis's expiry.
func validity(lease, elapsed time.Duration) time.Duration {
	return lease - elapsed - lease/100 - 2*time.Millisecond
}

// attempt is one call of Lock or TryLock while it asks.
type attempt struct {
	*Redlock
	*call
	ctx         context.Context
	refused     bool // a majority answered the last round: the lock is taken
	unsubscribe []func()
	signal      chan struct{} // nil: not subscribed to unlocks yet
	splits      int           // rounds in a row that got a minority
	pause       time.Duration // until the next round, unless a signal comes first
	deaf        []atomic.Bool // by deployment: its signals do not count
}

// acquire makes rounds for w until one succeeds, or one round if the call does not wait.
func (r *Redlock) acquire(ctx context.Context, c *call, w *waiter) (*hold, error) {
	a := attempt{Redlock: r, call: c, ctx: ctx, pause: timing.MinBackoff}
	defer a.leave()
	for {
		h, got, err := a.round()
		switch {
		case h != nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, a.ended(err)
		case r.closed():
			return nil, lockerr.New(c.op, r.name, lockerr.ErrClosed)
		case !c.wait || errors.As(err, new(*permanentError)):
			return nil, err
		}
		if a.refused = err == nil; a.refused {
			c.told.Contend(ctx)
		}
		r.queue.Report(w, err) // for those that queue behind
		a.subscribe()
		a.sleep(got, err)
		if ctx.Err() != nil {
			return nil, a.ended(err)
		}
	}
}

// ended returns the error of a call whose ctx has ended. The last round failed with err, perhaps
// only because of that.
func (a *attempt) ended(err error) error {
	if a.refused {
		return lockerr.Taken(a.op, a.name, a.ctx, time.Duration(a.e.Clock.Now()-a.start))
	}
	return lockerr.Ended(a.op, a.name, a.ctx, lockerr.Bare(err))
}

// subscribe subscribes to the unlocks of all deployments.
func (a *attempt) subscribe() {
	if a.signal != nil {
		return
	}
	a.signal = make(chan struct{}, 1)
	for i, n := range a.nodes {
		deaf, signal := &a.deaf[i], a.signal
		if unsubscribe, ok := n.Subscribe(func() {
			if !deaf.Load() {
				timing.Signal(signal)
			}
		}); ok {
			a.unsubscribe = append(a.unsubscribe, unsubscribe)
		}
	}
}

func (a *attempt) leave() {
	for _, unsubscribe := range a.unsubscribe {
		unsubscribe()
	}
}

// sleep sleeps after a round that got so many deployments, or failed with err.
func (a *attempt) sleep(got int, err error) {
	if got > 0 && err == nil {
		timing.Pause(a.ctx, timing.Jitter(splitPause<<min(a.splits, 8)))
		a.splits++
		select {
		case <-a.signal: // likely of what this call gave back
		default:
		}
		return
	}
	a.splits = 0
	ctx, cancel := context.WithTimeout(a.ctx, timing.Jitter(a.pause))
	defer cancel()
	a.pause = min(2*a.pause, time.Second)
	heard := engine.Await(ctx, a.signal, a.engines())
	for heard && err != nil && !a.connected() {
		heard = engine.Await(ctx, a.signal, a.engines())
	}
	if heard {
		if err == nil {
			a.pause = timing.MinBackoff
		}
		timing.Pause(a.ctx, timing.Jitter(splitPause)) // not all calls at once
	}
}

// heed chooses the deployments whose signals count after a round that asked some of them. If no
// majority answered, those are the ones that failed: they may be back. Of the others the call would
// mostly hear what it and others like it give back. If a majority answered, those that failed do not
// count, which signal each attempt to connect.
func (a *attempt) heed(asked []int, errs []error, failed bool) {
	if a.deaf == nil {
		a.deaf = make([]atomic.Bool, len(a.nodes))
	}
	for i := range a.deaf {
		a.deaf[i].Store(slices.Contains(asked, i) && (errs[i] == nil) == failed)
	}
}

// permanentError is a round error that will not go away: no majority is left of the deployments
// that do not refuse for good.
type permanentError struct{ error }

func (p *permanentError) Unwrap() error { return p.error }

// bounded returns a context for one request to every deployment on behalf of ctx. It carries the
// owner of the parts. Its end shows in Done only: at a deadline rueidis would close the connection
// of a deployment that does not answer.
//
// Without a deadline a call does not take rueidis's synchronous path (see transport.Patience).
// Here that costs nothing: the calls to all deployments wait side by side, and goroutines
// have to take turns as readers anyway.
func (h *hold) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, h.r.bound())
	return arbiter.WithOwner(transport.NoDeadline{Context: ctx}, h.owner), cancel
}

// round asks the deployments once, concurrently. If they do not suffice it gives back what it got,
// and returns how much that was; the error is theirs if so many failed that no majority was left.
func (a *attempt) round() (_ *hold, got int, err error) {
	r, ctx := a.Redlock, a.ctx
	asked, others := r.candidates()
	h := newHold(r)
	start := r.e.Clock.Now()
	bounded, cancel := h.bounded(ctx)
	defer cancel()
	errs := make([]error, len(r.nodes))
	h.takeAll(bounded, asked, errs)
	if len(others) > 0 && len(asked)-failures(errs) < r.quorum() && bounded.Err() == nil {
		h.takeAll(bounded, others, errs) // they may be healthy again
		asked = append(asked, others...)
	}

	elapsed := time.Duration(r.e.Clock.Now() - start)
	if ctx.Err() == nil {
		r.markSilentSuspect(errs)
	}
	got = h.count()
	if got >= r.quorum() && validity(r.lease, elapsed) > 0 {
		return h, got, nil
	}
	late := got >= r.quorum()
	a.heed(asked, errs, late || len(asked)-failures(errs) < r.quorum())
	h.discard(ctx)
	if late {
		return nil, 0, lockerr.New(a.op, r.name, engine.ErrLate)
	}
	return nil, got, r.roundError(ctx, a.op, len(asked), errs)
}

// takeAll asks some deployments concurrently, and records their errors.
func (h *hold) takeAll(ctx context.Context, which []int, errs []error) {
	timing.Together(len(which), func(at int) {
		i := which[at]
		errs[i] = h.take(ctx, i, h.r.nodes[i].Mutex)
	})
}

func failures(errs []error) (n int) {
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	return n
}

// roundError returns the error of a round that asked so many deployments; nil if a majority
// answered.
func (r *Redlock) roundError(ctx context.Context, op string, asked int, errs []error) error {
	if asked-failures(errs) >= r.quorum() {
		return nil
	}
	willing := len(r.nodes)
	for i, err := range errs {
		if err == nil {
			continue
		}
		errs[i] = fmt.Errorf("deployment %d of %d: %w", i+1, len(errs), lockerr.Bare(err))
		if ctx.Err() == nil && refuses(err) {
			willing--
		}
	}
	err := lockerr.New(op, r.name, errs...)
	if willing < r.quorum() {
		err = &permanentError{err}
	}
	return err
}

// refuses reports whether a deployment that failed with err refuses for good.
func refuses(err error) bool {
	return errors.Is(err, lockerr.ErrClosed) || err != engine.ErrUnconfirmed && !transport.Transient(err)
}

// markSilentSuspect marks the deployments suspect that did not answer a round in time. One whose
// connection broke delayed nobody, and may answer on the next.
func (r *Redlock) markSilentSuspect(errs []error) {
	for i, err := range errs {
		if errors.Is(err, context.DeadlineExceeded) {
			r.nodes[i].markSuspect()
		}
	}
}
