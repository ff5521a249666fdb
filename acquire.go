package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

const (
	pollMost = 3 * time.Second        // a waiter looks again at least that often, message or not
	pollDeaf = 100 * time.Millisecond // and that often while its channel is not subscribed
	backoff0 = 5 * time.Millisecond
	backoffN = time.Second
)

var errLate = errors.New("the reply came after the lease it grants had ended")

// lockBase is what a lock value of any type is made of.
type lockBase struct {
	s    *Session
	keys lockKeys
	cfg  lockConfig // its err is that of the name, too
	ms   string     // length of the lease
}

func (s *Session) lockBase(k kind, name string, opts []LockOption) lockBase {
	b := lockBase{s: s, keys: newLockKeys(k, name)}
	for _, o := range opts {
		if o != nil {
			o.applyLock(&b.cfg)
		}
	}
	if err := checkName(name); err != nil {
		b.cfg.err = err
	}
	b.ms = s.leaseMS
	if b.cfg.lease > 0 {
		b.ms = millis(b.cfg.lease)
	}
	return b
}

// usable reports why no operation on the lock can do anything.
func (b *lockBase) usable(op string) error {
	if b.s == nil {
		return errZero
	}
	if b.cfg.err != nil {
		return failed(op, b.keys.name, b.cfg.err)
	}
	return nil
}

// lockWith does what every Lock and TryLock has around it; enter does the rest.
func (b *lockBase) lockWith(ctx context.Context, op string, wait bool,
	enter func(context.Context, *arbiter.Owner, string, bool, *AcquireEvent) (bool, error)) (bool, error) {
	if err := b.usable(op); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, ctxFailed(op, b.keys.name, ctx, nil)
	}
	if !b.s.begin() {
		return false, failed(op, b.keys.name, ErrClosed)
	}
	defer b.s.end()
	e := AcquireEvent{Name: b.keys.name}
	var start int64
	if b.s.cfg.observer != nil {
		start = b.s.clock.now()
	}
	ok, err := enter(ctx, ownerOf(ctx), op, wait, &e)
	if obs := b.s.cfg.observer; obs != nil && (ok || err != nil) && !e.again {
		e.Wait, e.Err = time.Duration(b.s.clock.now()-start), err
		obs.Acquired(e)
	}
	return ok, err
}

// attempt is one call of Lock while it asks Redis.
type attempt struct {
	*lockBase
	ctx    context.Context // the caller's
	io     context.Context // the same for rueidis
	wait   bool
	poll   time.Duration // look again at least that often
	shares bool          // a reader: enters beside others, and gives way to nobody
	listen *listener
	last   error // of the last try, if Redis did not answer properly
	tries  int

	// A script has failed, perhaps half-way, and that is not undone.
	halfway bool
}

func (b *lockBase) attempt(ctx context.Context, wait bool) attempt {
	return attempt{lockBase: b, ctx: ctx, io: b.s.ioFor(ctx), wait: wait, poll: pollMost}
}

// ask gets an exclusive lock from Redis. If the call does not wait and the lock is
// taken, there is neither a lease nor an error. After an error nothing is left in
// Redis, or the cleaner is at it.
func (b *lockBase) ask(ctx context.Context, k kind, wait bool) (l *lease, contended bool, err error) {
	a := b.attempt(ctx, wait)
	l = b.newLease(k)
	if k == write {
		a.poll = intentValid / 3
	}
	err = a.run(func() (bool, time.Duration, error) {
		ttl, err := a.try(l, func() (int64, time.Duration, error) {
			return a.s.proto.acquire(a.io, l, a.ms, wait, &a.s.cfg)
		})
		l.top = l.token + tokens(l.token) - 1
		return l.token > 0, ttl, err
	})
	if err == nil && l.token > 0 {
		return l, a.tries > 1, nil
	}
	if l.unclear || a.halfway || k == write && wait && a.tries > 0 {
		b.s.clean.add(l, l.unclear, nil) // of a writer the intent, too
	}
	return nil, true, err
}

// run tries until a try says it is done or fails for good, or once if the call does
// not wait. A try returns done, or the time after which the lock may be free.
//
// A waiter listens before the try whose failure sends it to sleep, so a release
// after that try wakes it.
func (a *attempt) run(try func() (done bool, ttl time.Duration, err error)) error {
	defer a.leave()
	backoff := backoff0
	if a.wait {
		if a.s.hub.known(a.keys.channel) {
			a.listen, _ = a.s.hub.join(a.keys.channel)
		}
		if err := a.letPass(); err != nil {
			return err
		}
	}
	for {
		heard := a.listen != nil && a.listen.live()
		a.tries++
		done, ttl, err := try()
		if done && err == nil {
			return nil
		}
		if err != nil {
			if err := a.failed(err); err != nil {
				return err
			}
			if err := a.sleep(jitter(backoff), nil); err != nil {
				return err
			}
			backoff = min(2*backoff, backoffN)
			continue
		}
		if !a.wait {
			return nil
		}
		backoff, a.last = backoff0, nil
		if a.listen == nil {
			a.listen, heard = a.s.hub.join(a.keys.channel)
			if heard {
				continue // subscribed all along: look again, then sleep
			}
		}
		if err := a.sleep(a.pause(ttl, heard), a.listen.C); err != nil {
			return err
		}
		if err := a.letPass(); err != nil {
			return err
		}
	}
}

func (a *attempt) leave() {
	if a.listen != nil {
		a.listen.leave()
	}
}

// failed judges the error of a try: nil if it is worth another one, else what the
// call is to return.
func (a *attempt) failed(err error) error {
	if end := a.ended(); end != nil {
		if !isEnd(err) {
			a.last = err
			end = a.ended()
		}
		return end
	}
	if !a.wait || !transient(err) {
		return failed("lock", a.keys.name, err)
	}
	a.last = err
	return nil
}

// try asks once for l; l.token tells whether it was granted. A reply above 0 is the
// token.
func (a *attempt) try(l *lease, ask func() (int64, time.Duration, error)) (ttl time.Duration, err error) {
	for late := 0; ; late++ {
		l.sent = a.s.clock.now()
		token, ttl, err := ask()
		l.since = a.s.clock.now()
		if err != nil {
			if _, answered := redisError(err); !answered || token > 0 { // or too few replicas have it
				l.unclear = true
			} else if !transient(err) {
				a.halfway = true
			}
			return 0, err
		}
		a.s.sawRTT(l.since - l.sent)
		if token <= 0 {
			return ttl, nil
		}
		l.deadline.Store(l.certainUntil(l.sent))
		if certain(l, l.since+early) {
			l.token = token
			return 0, nil
		}
		if err := a.late(l, late); err != nil {
			return 0, err
		}
	}
}

// late deals with a grant that was sent too long ago to be certain. The lease starts
// anew when the same id asks again, which it does once.
func (a *attempt) late(l *lease, before int) error {
	l.unclear = true
	if before == 0 {
		return nil
	}
	old := &lease{keys: l.keys, kind: l.kind, id: l.id, length: l.length, index: -1}
	a.s.clean.add(old, true, nil) // an earlier attempt may have got no reply
	l.id = a.s.newID(l.kind)
	return errLate
}

// pause returns how long to sleep at most when the lock is taken for another ttl.
func (a *attempt) pause(ttl time.Duration, heard bool) time.Duration {
	most := jitter(a.poll)
	if !heard {
		most = jitter(min(a.poll, pollDeaf))
	}
	if ttl < 0 || ttl > most {
		return most
	}
	return ttl + time.Millisecond + jitter(min(ttl/100, 10*time.Millisecond))
}

// sleep waits for d, a signal, or the end of the call.
func (a *attempt) sleep(d time.Duration, signal <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-signal:
	case <-a.ctx.Done():
	case <-a.s.closing:
	}
	return a.ended()
}

// letPass waits as long as it is the turn of other processes.
func (a *attempt) letPass() error {
	for !a.shares && a.s.turns.some.Load() > 0 {
		now := a.s.clock.now()
		d := a.s.turns.due(a.keys.channel, now, a.s.hub.heard(a.keys.channel), a.s.step()) - now
		if d <= 0 {
			break
		}
		var signal <-chan struct{}
		if a.listen != nil {
			signal = a.listen.C
		}
		if err := a.sleep(time.Duration(d), signal); err != nil {
			return err
		}
	}
	return nil
}

// ended returns why the call must end, if it must.
func (a *attempt) ended() error {
	if a.ctx.Err() != nil {
		return ctxFailed("lock", a.keys.name, a.ctx, a.last)
	}
	if a.s.closed() {
		return failed("lock", a.keys.name, ErrClosed, a.last)
	}
	return nil
}
