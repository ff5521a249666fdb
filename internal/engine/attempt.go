package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

const (
	pollMost = 3 * time.Second        // a waiter asks again at least that often, message or not
	pollDeaf = 100 * time.Millisecond // and that often while its channel is not subscribed
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
	poll    time.Duration // ask again at least that often
	listen  *pubsub.Listener
	tries   int
	backoff time.Duration // before the next request, after some that were refused

	// The last answer of Redis.
	taken bool  // the lock is taken
	last  error // it failed, or did not answer
	asked int64 // when the request was sent

	// halfway: a script failed, and what it did before that is not undone.
	halfway bool
}

func (b *base) attempt(ctx context.Context, op string, w *waiter, wait bool, call *Acquired) attempt {
	call.begin(b.e)
	b.e.label.asking()
	a := attempt{
		base: b, ctx: ctx, io: transport.ForCaller(ctx, b.e.callCtx), op: op, w: w, call: call, wait: wait, poll: pollMost,
	}
	if b.kind == wire.Write || b.kind == wire.Read {
		a.poll = wire.IntentValid / 3 // keeps the intent alive
	}
	return a
}

// retry calls try until it is done or fails for good; only once if the call does not wait. try
// returns whether it is done, or when the lock may become free.
//
// A waiter subscribes before the try whose failure sends it to sleep, so that any release after
// that try wakes it.
func (a *attempt) retry(try func() (done bool, ttl time.Duration, err error)) error {
	defer a.unsubscribe()
	backoff := timing.MinBackoff
	if a.wait {
		if a.e.broker.Known(a.keys.Channel) {
			a.listen, _ = a.e.broker.Subscribe(a.keys.Channel)
		}
		if err := a.yield(); err != nil {
			return err
		}
	}
	for {
		live := a.listen != nil && a.listen.Live()
		a.tries++
		a.asked = a.e.Clock.Now()
		done, ttl, err := try()
		if done && err == nil {
			return nil
		}
		if err != nil {
			if err := a.check(err); err != nil {
				return err
			}
			if err := a.sleep(timing.Jitter(backoff), nil); err != nil {
				return err
			}
			backoff = min(2*backoff, timing.MaxBackoff)
			continue
		}
		if !a.wait {
			return nil
		}
		backoff = timing.MinBackoff
		a.answered(nil)
		if a.listen == nil {
			a.listen, live = a.e.broker.Subscribe(a.keys.Channel)
			if live {
				continue // already subscribed by another call: try once more, then sleep
			}
		}
		if err := a.sleep(a.sleepFor(ttl, live), a.listen.C); err != nil {
			return err
		}
		if err := a.yield(); err != nil {
			return err
		}
	}
}

func (a *attempt) unsubscribe() {
	if a.listen != nil {
		a.listen.Unsubscribe()
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
	case !a.wait || err == lockerr.ErrUnlockFirst || !transport.Transient(err):
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
		a.arb.report(a.w, err) // for those that queue behind
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

// sleepFor returns how long to sleep at most while the lock is taken for another ttl.
func (a *attempt) sleepFor(ttl time.Duration, live bool) time.Duration {
	most := timing.Jitter(a.poll)
	if !live {
		most = timing.Jitter(min(a.poll, pollDeaf))
	}
	if ttl < 0 || ttl > most {
		return most
	}
	return ttl + time.Millisecond + timing.Jitter(min(ttl/100, 10*time.Millisecond))
}

// sleep waits for d, a signal, or the end of the call, whose error it returns.
func (a *attempt) sleep(d time.Duration, signal <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-signal:
	case <-a.ctx.Done():
	case <-a.e.closing:
	}
	return a.ended()
}

// yield lets other processes go first while it is their turn. Readers enter together, and do
// not yield.
func (a *attempt) yield() error {
	for a.kind != wire.Read {
		d := a.YieldFor()
		if d <= 0 {
			break
		}
		var signal <-chan struct{}
		if a.listen != nil {
			signal = a.listen.C
		}
		if err := a.sleep(d, signal); err != nil {
			return err
		}
	}
	return nil
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
