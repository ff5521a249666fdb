package engine

import (
	"context"
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
	ctx    context.Context // the caller's
	io     context.Context // the same for rueidis
	wait   bool
	poll   time.Duration // ask again at least that often
	listen *pubsub.Listener
	last   error // of the last try, if Redis failed
	tries  int

	// halfway: a script failed, and what it did before that is not undone.
	halfway bool
}

func (b *base) attempt(ctx context.Context, wait bool) attempt {
	a := attempt{base: b, ctx: ctx, io: transport.ForCaller(ctx, b.e.callCtx), wait: wait, poll: pollMost}
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
		backoff, a.last = timing.MinBackoff, nil
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
	if end := a.ended(); end != nil {
		if !transport.IsContextError(err) {
			a.last = err
			end = a.ended()
		}
		return end
	}
	if !a.wait || err == lockerr.ErrUnlockFirst || !transport.Transient(err) {
		return lockerr.New("lock", a.keys.Name, err)
	}
	a.last = err
	return nil
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
	if a.ctx.Err() != nil {
		return lockerr.Ended("lock", a.keys.Name, a.ctx, a.last)
	}
	if a.e.Closed() {
		return lockerr.New("lock", a.keys.Name, lockerr.ErrClosed, a.last)
	}
	return nil
}
