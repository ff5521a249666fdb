package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// attempt is one call of Lock or TryLock while it asks Redis.
type attempt struct {
	*base
	ctx     context.Context // the caller's
	io      context.Context // the same for rueidis
	op      string
	w       *waiter // nil for a batch
	call    *Acquired
	wait    bool
	tries   int
	backoff time.Duration // before the next request, after some that were refused

	// ask sends a request, and queues if that is set; nil: as the kind of lock does.
	ask func(l *lease.Lease, queue bool) (reply int64, ttl time.Duration, err error)

	// The last answer of Redis.
	taken bool  // the lock is taken
	last  error // it failed, or did not answer
	asked int64 // when the request was sent

	// halfway: a script failed, and what it did before that is not undone.
	halfway bool
}

func (b *base) attempt(ctx context.Context, op string, w *waiter, wait bool, call *Acquired) attempt {
	call.begin(b.e)
	return attempt{
		base: b, ctx: ctx, io: transport.ForCaller(ctx, b.e.callCtx), op: op, w: w, call: call, wait: wait,
	}
}

// check returns nil if the call may try again after err, else what the call must return.
func (a *attempt) check(err error) error {
	switch end := a.ended(); {
	case end != nil && !transport.IsContextError(err):
		a.answered(err)
		return a.ended()
	case end != nil:
		a.unanswered()
		return a.ended()
	case !a.wait || !transport.Transient(err):
		return lockerr.New(a.op, a.Name(), err)
	}
	a.answered(err)
	return nil
}

// answered records the last answer of Redis: the lock is taken if err is nil.
func (a *attempt) answered(err error) {
	a.taken, a.last = err == nil, err
	if a.taken {
		a.call.Contend(a.ctx)
	}
	if a.w != nil && a.wait {
		a.arb.Report(a.w, err) // for those that queue behind
	}
}

// silentFrom is when a request without an answer outweighs the answer before it.
const silentFrom = time.Second

// unanswered records that the call has ended during a request. An error before that says more.
func (a *attempt) unanswered() {
	d := time.Duration(a.e.Clock.Now() - a.asked)
	if a.last == nil && (d >= silentFrom || !a.taken) {
		a.taken, a.last = false, fmt.Errorf("no answer from Redis for %s", lockerr.Span(d))
	}
}

// ended returns why the call must end, nil if it may go on.
func (a *attempt) ended() error {
	switch {
	case a.ctx.Err() != nil && (a.taken || a.w != nil && a.heldHere(a.w)):
		return lockerr.Taken(a.op, a.Name(), a.ctx, time.Duration(a.e.Clock.Now()-a.call.start))
	case a.ctx.Err() != nil:
		return lockerr.Ended(a.op, a.Name(), a.ctx, a.last)
	case a.e.Closed():
		return lockerr.New(a.op, a.Name(), lockerr.ErrClosed, a.last)
	}
	return nil
}
