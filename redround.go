package relock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/relock-go/relock/internal/arbiter"
)

// How a Redlock is taken.
//
// Calls that ask at the same time may each get some of the deployments and none of them
// a majority. They give back what they have and try again after a random time, which
// grows until one is through. While another has the lock nobody gets anything, and
// sleeps until it hears of an unlock.

// attempts is one call of Lock while it asks.
type attempts struct {
	*Redlock
	ctx    context.Context
	ears   []*listener
	signal chan struct{}
	splits int           // rounds in a row that got some and not enough
	wait   time.Duration // until the next round, if nothing is heard
}

// letPass waits while it is the turn of other processes, as the first deployment sees
// it.
func (a *attempts) letPass() {
	s, channel := a.s, a.nodes[0].keys.channel
	for s.turns.some.Load() > 0 && a.ctx.Err() == nil && !s.closed() {
		now := s.clock.now()
		d := s.turns.due(channel, now, s.hub.heard(channel), s.step()) - now
		if d <= 0 {
			return
		}
		pause(a.ctx, time.Duration(d))
	}
}

// acquire makes rounds until one succeeds, or one if the call does not wait.
func (r *Redlock) acquire(ctx context.Context, op string, wait bool) (*redHold, error) {
	a := attempts{Redlock: r, ctx: ctx, wait: backoff0}
	defer a.leave()
	if wait {
		a.letPass()
	}
	for {
		h, got, err := r.round(ctx)
		switch {
		case h != nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, ctxFailed(op, r.name, ctx, err)
		case r.closed():
			return nil, failed(op, r.name, ErrClosed)
		case !wait || errors.As(err, new(*barred)):
			return nil, err
		}
		a.listen()
		a.sleep(got, err)
		if ctx.Err() != nil {
			return nil, ctxFailed(op, r.name, ctx, err)
		}
	}
}

// listen subscribes to the unlocks.
func (a *attempts) listen() {
	if a.signal != nil {
		return
	}
	a.signal = make(chan struct{}, 1)
	for _, n := range a.nodes {
		if n.s.begin() {
			a.ears = append(a.ears, n.s.hub.watch(n.keys.channel, func() { wake(a.signal) }))
			n.s.end()
		}
	}
}

func (a *attempts) leave() {
	for _, l := range a.ears {
		l.leave()
	}
}

// sleep waits for as long as makes sense after a round that got so much, or failed.
func (a *attempts) sleep(got int, err error) {
	if got > 0 && err == nil {
		pause(a.ctx, jitter(a.s.step()<<min(a.splits, 8)))
		a.splits++
		select {
		case <-a.signal: // of what this very call gave back, as likely as not
		default:
		}
		return
	}
	a.splits = 0
	ctx, cancel := context.WithTimeout(a.ctx, jitter(a.wait))
	defer cancel()
	a.wait = min(2*a.wait, time.Second)
	if await(ctx, a.signal, a.ownSessions()) {
		a.wait = backoff0
		pause(a.ctx, jitter(stepMin)) // not all at once
	}
}

// barred: so many deployments refuse for good that the others are no majority.
type barred struct{ error }

func (b *barred) Unwrap() error { return b.error }

// askCtx is the context of what is asked of the deployments at the same time: a caller's
// with the owner of the parts, and with an end that comes through Done only, since the
// client would close the connection of one that does not answer by a deadline.
//
// So these calls do not take the client's synchronous path; see patience. They are not
// slower for it, unlike others: those of all deployments wait for their replies beside
// each other, and goroutines have to change whoever reads.
type askCtx struct {
	context.Context
	owner *arbiter.Owner
}

func (askCtx) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *askCtx) Value(key any) any {
	if key == (ownerKey{}) {
		return c.owner
	}
	return c.Context.Value(key)
}

// bounded returns the context for asking every deployment once, on behalf of ctx.
func (h *redHold) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, h.r.bound())
	return &askCtx{ctx, h.owner}, cancel
}

// round asks the deployments once, at the same time. If what it gets is not enough it
// gives that back, and returns how much it was; its error is theirs if so many failed
// that no majority was left.
func (r *Redlock) round(ctx context.Context) (_ *redHold, got int, err error) {
	asked, others := r.asked()
	h := newRedHold(r)
	start := r.s.clock.now()
	bounded, cancel := h.bounded(ctx)
	defer cancel()
	errs := make([]error, len(r.nodes))
	h.ask(bounded, asked, errs)
	if len(others) > 0 && len(asked)-failures(errs) < r.quorum() && bounded.Err() == nil {
		h.ask(bounded, others, errs) // they may be well again
		asked = append(asked, others...)
	}

	elapsed := time.Duration(r.s.clock.now() - start)
	if ctx.Err() == nil {
		r.distrustSilent(errs)
	}
	got = h.count()
	if got >= r.quorum() && validity(r.lease, elapsed) > 0 {
		return h, got, nil
	}
	h.discard()
	if got >= r.quorum() {
		return nil, 0, failed("lock", r.name, errLate)
	}
	return nil, got, r.judge(ctx, len(asked), errs)
}

// ask asks some deployments at the same time, and records their errors.
func (h *redHold) ask(ctx context.Context, which []int, errs []error) {
	var eg errgroup.Group
	for _, i := range which[1:] {
		eg.Go(func() error { errs[i] = h.take(ctx, i); return nil })
	}
	errs[which[0]] = h.take(ctx, which[0])
	_ = eg.Wait() // each error is in errs
}

func failures(errs []error) (n int) {
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	return n
}

// judge returns the error of a round in which so many deployments were asked and these
// errors came back, if no majority was left.
func (r *Redlock) judge(ctx context.Context, asked int, errs []error) error {
	if asked-failures(errs) >= r.quorum() {
		return nil
	}
	good := len(r.nodes)
	for i, err := range errs {
		if err == nil {
			continue
		}
		errs[i] = fmt.Errorf("deployment %d of %d: %w", i+1, len(errs), err)
		if ctx.Err() == nil && refuses(err) {
			good--
		}
	}
	err := failed("lock", r.name, errs...)
	if good < r.quorum() {
		err = &barred{err}
	}
	return err
}

// refuses reports whether err is a deployment's last word: to ask again would be in vain.
func refuses(err error) bool { return errors.Is(err, ErrClosed) || !transient(err) }

// distrustSilent has the deployments that did not answer a round in time not waited for
// in the next ones, whether it got a majority or not. One whose connection broke cost
// nothing, and may answer on the next.
func (r *Redlock) distrustSilent(errs []error) {
	for i, err := range errs {
		if errors.Is(err, context.DeadlineExceeded) {
			r.nodes[i].distrust()
		}
	}
}

// asked returns the deployments to ask: those that are likely to answer, and the others,
// or all if those are no majority.
func (r *Redlock) asked() (well, others []int) {
	well = make([]int, 0, len(r.nodes))
	for i, n := range r.nodes {
		if n.well() {
			well = append(well, i)
		} else {
			others = append(others, i)
		}
	}
	if len(well) < r.quorum() {
		return append(well, others...), nil
	}
	return well, others
}

// passRed is asked by the arbiter whether a hold may go to another goroutine.
func (s *Session) passRed(h *redHold, now int64) (int64, bool) {
	r := h.r
	return 0, r.cfg == lockConfig{} && now-h.since < int64(s.cfg.tenure) && h.left() >= r.lease/2 && !r.closed()
}

// redRules are those of the table where the Redlocks of a process queue.
func (s *Session) redRules() arbiter.Rules[*redHold] {
	return arbiter.Rules[*redHold]{
		Now:     s.clock.now,
		Certain: func(h *redHold, _ int64) bool { return h.left() > 0 },
		Pass:    s.passRed,
	}
}
