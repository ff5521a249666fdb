package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
)

// How a Redlock is acquired: in rounds. A round asks all deployments at the same time, and is decided as soon as a
// majority has granted the lock, or cannot any more. After a majority has granted it, the others get as long
// again. What a deployment grants later belongs to the hold if there is one, and is given back otherwise.
//
// Calls that ask at the same time may each get some of the deployments, and none of them a majority. They
// give back what they got and try again after a random pause, which grows.

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

// acquire makes rounds for w until one succeeds, or one round if the call does not wait.
func (r *Redlock) acquire(ctx context.Context, w *arbiter.Waiter[*hold], c *engine.Call) (*hold, error) {
	pause, taken := pauseLeast, false
	for {
		h, err := r.round(ctx, c)
		var permanent *permanentError
		switch {
		case h != nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, r.ended(ctx, c, taken, err)
		case r.closed():
			return nil, lockerr.New(c.Op, r.name, lockerr.ErrClosed)
		case !c.Wait || errors.As(err, &permanent):
			return nil, err
		}
		if taken = err == nil; taken {
			c.Contend()
		}
		r.table.Report(w, err) // for those that queue behind
		r.pause(ctx, timing.Jitter(pause))
		if pause *= 2; err == nil {
			pause = min(pause, pauseMost)
		}
		pause = min(pause, backOff)
		if ctx.Err() != nil {
			return nil, r.ended(ctx, c, taken, err)
		}
	}
}

// pause sleeps for d, or until ctx or the sessions end.
func (r *Redlock) pause(ctx context.Context, d time.Duration) {
	ctx, stop := timing.Within(ctx, d)
	defer stop()
	for ctx.Err() == nil && !r.closed() {
		engine.Await(ctx, nil, r.engines())
	}
}

// permanentError is a round error that will not go away: no majority is left of the deployments
// that do not refuse for good.
type permanentError struct{ error }

func (p *permanentError) Unwrap() error { return p.error }

// connected returns the deployments to ask: those whose other connection answers, if they are a majority, or all.
// A deployment that hangs would get more and more requests.
func (r *Redlock) connected() (some []int) {
	all := make([]int, len(r.nodes))
	for i, n := range r.nodes {
		all[i] = i
		if n.Engine().Connected() {
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

// round asks the deployments once, concurrently. If they do not suffice it gives back what it got; the
// error is theirs if so many failed that no majority was left.
func (r *Redlock) round(ctx context.Context, c *engine.Call) (*hold, error) {
	h, asked := newHold(r), r.connected()
	answers := make(chan answer, len(asked))
	for _, i := range asked {
		go func() { // ends in time; the engine's Close waits for it
			got, err := h.take(ctx, i)
			answers <- answer{i, got, err}
		}()
	}
	errs := make([]error, len(r.nodes))
	got, failed, refused := 0, len(r.nodes)-len(asked), 0
	for range asked {
		a := <-answers
		switch {
		case a.got:
			got++
		case a.err != nil:
			errs[a.i] = a.err
			failed++
		default:
			refused++
		}
		if got >= r.quorum() || len(r.nodes)-refused < r.quorum() {
			break
		}
	}
	elapsed := time.Duration(r.e.Clock.Now() - h.since)
	switch {
	case got >= r.quorum() && validity(r.lease, elapsed) > 0:
		awaitRest(answers, len(r.nodes)-got-failed-refused, elapsed)
		return h, nil
	case got >= r.quorum():
		h.discard()
		return nil, lockerr.New(c.Op, r.name, engine.ErrLate)
	}
	h.discard()
	if refused > 0 && len(r.nodes)-failed >= r.quorum() {
		return nil, nil // taken
	}
	return nil, r.roundError(ctx, c.Op, errs)
}

// awaitRest gives n more deployments as long to answer as the others took. A deployment that is released later than
// the next call asks it would refuse that call.
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
func (r *Redlock) roundError(ctx context.Context, op string, errs []error) error {
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
	err := lockerr.New(op, r.name, errs...)
	if willing < r.quorum() {
		err = &permanentError{err}
	}
	return err
}

// release gives every part back, and waits until a majority has confirmed that, or all have answered. The rest
// goes on.
func (h *hold) release(ctx context.Context) error {
	r, parts := h.r, h.end()
	start := r.e.Clock.Now()
	answers := make(chan answer, len(parts))
	for i, p := range parts {
		if p == nil {
			answers <- answer{i: i}
			continue
		}
		go func() { // ends in time: see engine.Lock.ReleasePart
			held, err := r.nodes[i].ReleasePart(ctx, p)
			answers <- answer{i, held, err}
		}()
	}
	held := 0
	errs := []error{lockerr.ErrGone}
	for i := range parts {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
		}
		if a.got {
			held++
		}
		if held >= r.quorum() {
			awaitRest(answers, len(parts)-i-1, time.Duration(r.e.Clock.Now()-start))
			return nil
		}
	}
	return lockerr.New("unlock", r.name, errs...)
}
