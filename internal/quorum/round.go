package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// How a Redlock is acquired: in rounds. A round asks all deployments at the same time. As soon as a
// majority has granted the lock, the largest of their tokens is written to where it was granted
// with a smaller one. It is held when that token is on a majority. Then the others get as long
// again. What a deployment grants later belongs to the hold if there is one, and is given back
// otherwise.
//
// Calls that ask at the same time may each get some of the deployments, and none of them a
// majority. They give back what they got and try again after a random pause, which grows.

const (
	restLeast  = 200 * time.Microsecond // for the others, after a majority
	pauseLeast = 2 * time.Millisecond
	pauseMost  = 100 * time.Millisecond
	backOff    = time.Second // at most, while no majority answers
)

// bound is how long a request to one deployment may take.
func (r *Redlock) bound() time.Duration {
	return min(max(r.lease/20, 20*time.Millisecond), time.Second)
}

// validity returns what is left of a lease that took elapsed to acquire: less 1 % for the drift of
// the clocks, and 2 ms for the grain of Redis's expiry.
func validity(lease, elapsed time.Duration) time.Duration {
	return lease - elapsed - lease/100 - 2*time.Millisecond
}

// attempt is a call on a Redlock. It is an acquire.Asker.
type attempt struct {
	*Redlock
	ctx   context.Context
	c     *acquire.Call
	call  *local.Call
	facts acquire.Facts
	pause time.Duration // before the last round
}

// Ask makes rounds until one succeeds, or one round if the call does not wait. After one in which
// answers came late, or not in the time that its lease leaves them, the call starts over, behind
// others of the process, whose leases may be longer.
func (a *attempt) Ask(local.Step) (*local.Hold, local.Step, error) {
	h, err := a.rounds()
	if h == nil {
		return nil, local.Step{Do: local.Refuse}, err
	}
	granted := a.table.Granted(a.call, &h.Lease, a.Now())
	a.c.Got(granted, false)
	h.begin() // after the grant, so that a loss finds the hold
	return granted, local.Step{}, nil
}

func (a *attempt) rounds() (*hold, error) {
	for {
		a.facts.Sent(a.Now())
		h, permanent, err := a.round(a.ctx, a.c)
		if misuse := a.misuse(); h == nil && misuse != nil { // it is known by now
			return nil, a.Fails(misuse)
		}
		switch {
		case h != nil:
			return h, nil
		case a.ctx.Err() != nil: // which has cut this round short
			return nil, a.ended(err)
		case a.closed():
			return nil, a.Fails(lockerr.ErrClosed)
		case permanent || !a.c.Wait && err == nil:
			return nil, err
		case !a.c.Wait:
			return nil, a.Fails(lockerr.ErrUnavailable, lockerr.Bare(err))
		}
		most := backOff
		a.facts.Answered(err)
		switch {
		case late(err):
			return nil, acquire.ErrLate
		case err == nil:
			a.c.Contend()
			a.table.Refused(a.call, a.Now())
			if a.call.Owner != nil {
				a.call.Owner.Tell(a.owned)
			}
			most = pauseMost
		}
		a.pause = min(max(2*a.pause, pauseLeast), most)
		if ended := a.Pause(timing.Jitter(a.pause), nil); ended != nil {
			return nil, ended
		}
	}
}

// late reports whether a round has failed for want of time. After other errors each call of the
// process would fare alike, and one of them goes on asking, less and less often.
func late(err error) bool {
	return errors.Is(err, acquire.ErrLate) || errors.As(err, new(transport.NoAnswer))
}

// ended returns why the call must end, whose last round failed with err, perhaps only because of
// that.
func (a *attempt) ended(err error) error {
	if a.ctx.Err() == nil {
		return a.Fails(lockerr.ErrClosed)
	}
	taken, last := a.Verdict()
	if taken {
		here := acquire.Here(a.table.Holder(a.owned.Name), a.call.Owner, a.now())
		return lockerr.Taken(a.c.Op, a.name, a.ctx, a.c.Waited(), here)
	}
	if _, silent := last.(transport.NoAnswer); err != nil && (last == nil || silent) {
		last = err
	}
	return lockerr.Unavailable(a.c.Op, a.name, a.ctx, lockerr.Bare(last))
}

// Pause implements [acquire.Asker].
func (a *attempt) Pause(d time.Duration, signal <-chan struct{}) error {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	if !a.closed() {
		acquire.Await(a.ctx, a.sessions, after, signal, a.call.C)
	}
	if a.ctx.Err() != nil || a.closed() {
		return a.ended(nil)
	}
	return nil
}

// Verdict implements [acquire.Asker].
func (a *attempt) Verdict() (taken bool, err error) {
	return acquire.Verdict(a.table, a.call, &a.facts, a.Now())
}

// The following make an attempt an [acquire.Asker].

func (a *attempt) Table() *local.Table     { return a.table }
func (a *attempt) Follow(local.Step)       {} // readers and kept leases have more steps
func (a *attempt) Behind(any)              {} // the table knows
func (a *attempt) Known() *acquire.Facts   { return &a.facts }
func (a *attempt) GiveBack(h *local.Hold)  { a.giveBack(h, a.c.Due) }
func (a *attempt) Patience() time.Duration { return 2 * a.bound() }
func (a *attempt) Now() int64              { return a.now() }

func (a *attempt) Fails(errs ...error) error { return lockerr.New(a.c.Op, a.name, errs...) }

func (a *attempt) Refresh(h *local.Hold) bool {
	a.Redlock.Refresh(h)
	return h.State() != local.Live
}

// connected returns the deployments to ask: those whose other connection answers, if they are a
// majority, or all. A deployment that hangs would get more and more requests.
func (r *Redlock) connected() (some []int) {
	all := make([]int, len(r.nodes))
	for i, n := range r.nodes {
		all[i] = i
		if n.Node().Proto.Up.Load() {
			some = append(some, i)
		}
	}
	if len(some) < r.quorum() {
		return all
	}
	return some
}

// answer is what became of a request to one deployment.
type answer struct {
	i   int
	got bool
	err error
}

// ask sends a request to each of several deployments, concurrently. The requests end in time, also
// if nobody waits for the answers, and Close of a session waits for its own.
func ask(deployments []int, request func(i int) (got bool, err error)) <-chan answer {
	answers := make(chan answer, len(deployments))
	for _, i := range deployments {
		go func() {
			got, err := request(i)
			answers <- answer{i, got, err}
		}()
	}
	return answers
}

// answers are what became of a step of a round.
type answers struct {
	n, got, failed, refused int
	errs                    []error // by deployment
}

// await counts answers of the deployments that were asked, until a majority has got what it asked
// for, or cannot any more.
func (r *Redlock) await(c <-chan answer, asked int) answers {
	s := answers{failed: len(r.nodes) - asked, errs: make([]error, len(r.nodes))}
	for s.n < asked && s.got < r.quorum() && len(r.nodes)-s.refused >= r.quorum() {
		a := <-c
		s.n++
		switch {
		case a.got:
			s.got++
		case a.err != nil:
			s.errs[a.i] = a.err
			s.failed++
		default:
			s.refused++
		}
	}
	return s
}

// round asks the deployments once. If they do not suffice it gives back what it got; the error is
// theirs if so many failed that no majority was left. It is permanent if no majority is left of
// those that do not refuse for good.
func (r *Redlock) round(ctx context.Context, c *acquire.Call) (got *hold, permanent bool, err error) {
	h, some := newHold(r), r.connected()
	grants := make(chan answer, len(some))
	parts := ask(some, func(i int) (bool, error) { return h.take(ctx, i, 0, func(a answer) { grants <- a }) })
	s, start := r.await(grants, len(some)), h.since
	if s.got >= r.quorum() {
		start = r.now()
		h.choose()
		s = r.await(parts, len(some))
	}
	now := r.now()
	switch {
	case s.got >= r.quorum() && validity(r.lease, time.Duration(now-h.since)) > 0:
		awaitRest(parts, len(some)-s.n, time.Duration(now-start))
		return h, false, nil
	case s.got >= r.quorum():
		err = lockerr.New(c.Op, r.name, acquire.ErrLate)
	case s.refused == 0 || len(r.nodes)-s.failed < r.quorum(): // otherwise it is taken
		permanent, err = r.roundError(ctx, c.Op, s.errs)
	}
	_ = h.drop(context.Background())
	return nil, permanent, err
}

// awaitRest gives n more deployments as long to answer as the others took. A deployment that is
// released later than the next call asks it would refuse that call.
func awaitRest(answers <-chan answer, n int, took time.Duration) {
	rest := time.After(max(took, restLeast))
	for range n {
		select {
		case <-answers:
		case <-rest:
			return
		}
	}
}

// roundError returns the error of a round in which no majority of the deployments answered.
func (r *Redlock) roundError(ctx context.Context, op string, errs []error) (permanent bool, err error) {
	willing := len(r.nodes)
	for i, err := range errs {
		if err == nil {
			continue
		}
		errs[i] = fmt.Errorf("deployment %d of %d: %w", i+1, len(errs), lockerr.Bare(err))
		if ctx.Err() == nil && (errors.Is(err, lockerr.ErrClosed) || !transport.Transient(err) && !transport.IsContextError(err)) {
			willing--
		}
	}
	return willing < r.quorum(), lockerr.New(op, r.name, errs...)
}

// release gives every part back, and waits until a majority has confirmed that, or all have
// answered. The rest goes on.
func (h *hold) release(ctx context.Context) error {
	r, parts := h.r, h.end()
	defer h.released()
	start := r.now()
	held := with(true, parts)
	answers := ask(held, func(i int) (bool, error) { return r.nodes[i].ReleaseShare(ctx, parts[i]) })
	n := 0
	lost, errs := lockerr.ErrGone, []error(nil)
	for i := range held {
		a := <-answers
		switch {
		case errors.Is(a.err, lockerr.ErrForced):
			lost = lockerr.ErrForced
		case a.err != nil:
			errs = append(errs, a.err)
		}
		if a.got {
			n++
		}
		if n >= r.quorum() {
			awaitRest(answers, len(held)-i-1, time.Duration(r.now()-start))
			return nil
		}
	}
	return lockerr.New("unlock", r.name, append([]error{lost}, errs...)...)
}
