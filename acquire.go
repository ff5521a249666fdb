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
	cfg  lockConfig
	ms   string // length of the lease
	err  error  // bad name or option
}

func (s *Session) lockBase(name string, opts []LockOption) lockBase {
	b := lockBase{s: s}
	b.keys = lockKeys{name: name, fence: prefixed(prefixFence, name), channel: prefixed(prefixChannel, name)}
	for _, o := range opts {
		if o != nil {
			o.applyLock(&b.cfg)
		}
	}
	b.err = checkName(name)
	if b.err == nil {
		b.err = b.cfg.err
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
	if b.err != nil {
		return failed(op, b.keys.name, b.err)
	}
	return nil
}

// attempt is one call of Lock while it asks Redis.
type attempt struct {
	*lockBase
	ctx    context.Context // the caller's
	io     context.Context // the same for rueidis
	wait   bool
	listen *listener
	last   error // of the last try, if Redis did not answer properly
	tries  int
}

// ask gets the lock from Redis. Only one call per process and name asks at a time.
// If the call does not wait and the lock is taken, both results are nil. After an
// error nothing is left in Redis, or the cleaner is at it.
func (b *lockBase) ask(ctx context.Context, wait bool) (l *lease, contended bool, err error) {
	a := attempt{lockBase: b, ctx: ctx, io: ctx, wait: wait}
	if ctx.Done() == nil {
		a.io = b.s.callCtx
	} else if _, ok := ctx.Deadline(); ok {
		a.io = noDeadline{ctx}
	}
	l = b.s.newLease(&b.keys, &b.cfg)
	err = a.run(l)
	if a.listen != nil {
		a.listen.leave()
	}
	if err == nil && l.token > 0 {
		return l, a.tries > 1, nil
	}
	if l.unclear {
		b.s.clean.add(l, true, nil)
	}
	return nil, true, err
}

// run tries until l is acquired, which l.token tells, or there is an error, or the
// call does not wait.
//
// A waiter listens before the try whose failure sends it to sleep, so a release
// after that try wakes it.
func (a *attempt) run(l *lease) error {
	s, name := a.s, a.keys.name
	backoff := backoff0
	if a.wait {
		if steps := s.turns.giveWay(name, s.clock.now(), s.cfg.tenure); steps > 0 {
			if err := a.sleep(jitter(time.Duration(steps)*s.step()), nil); err != nil {
				return err
			}
		}
		if s.hub.known(a.keys.channel) {
			a.listen, _ = s.hub.join(a.keys.channel)
		}
	}
	for {
		heard := a.listen != nil && a.listen.live()
		ttl, err := a.try(l)
		switch {
		case err == nil && l.token > 0:
			return nil
		case err == nil && !a.wait:
			return nil
		case err == nil:
			backoff, a.last = backoff0, nil
		case a.ended() != nil:
			if !errors.Is(err, context.Canceled) {
				a.last = err
			}
			return a.ended()
		case !a.wait || !transient(err):
			return failed("lock", name, err)
		default:
			a.last = err
			if err := a.sleep(jitter(backoff), nil); err != nil {
				return err
			}
			backoff = min(2*backoff, backoffN)
			continue
		}
		if a.listen == nil {
			a.listen, heard = s.hub.join(a.keys.channel)
			if heard {
				continue // subscribed all along: look again, then sleep
			}
		}
		if err := a.sleep(a.pause(ttl, heard), a.listen.C); err != nil {
			return err
		}
	}
}

// try asks once.
func (a *attempt) try(l *lease) (ttl time.Duration, err error) {
	s := a.s
	a.tries++
	for late := 0; ; late++ {
		sent := s.clock.now()
		token, ttl, err := s.proto.acquire(a.io, &a.keys, l.id, a.ms, &s.cfg)
		now := s.clock.now()
		if err != nil {
			if _, answered := redisError(err); !answered {
				l.unclear = true
			}
			return 0, err
		}
		s.sawRTT(now - sent)
		if token <= 0 {
			return ttl, nil
		}
		l.since = now
		l.deadline.Store(l.certainUntil(sent))
		if now < l.deadline.Load()-early {
			l.token, l.top = token, token+tokens(token)-1
			return 0, nil
		}
		// Granted, but too long ago to be certain. The lease starts anew when the
		// same id asks again.
		l.unclear = true
		if late > 0 {
			s.clean.add(l, false, nil)
			l.id = s.newID()
			return 0, errLate
		}
	}
}

// pause returns how long to sleep at most when the lock is taken for another ttl.
func (a *attempt) pause(ttl time.Duration, heard bool) time.Duration {
	most := jitter(pollMost)
	if !heard {
		most = jitter(pollDeaf)
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
		return a.letPass(timer)
	case <-a.ctx.Done():
	case <-a.s.closing:
	}
	return a.ended()
}

// letPass waits after a signal as long as it is others' turn.
func (a *attempt) letPass(timer *time.Timer) error {
	steps := a.s.turns.behind(a.keys.name, a.s.clock.now())
	if steps > 0 {
		timer.Reset(time.Duration(steps) * a.s.step())
		select {
		case <-timer.C:
		case <-a.ctx.Done():
		case <-a.s.closing:
		}
	}
	a.s.turns.missed(a.keys.name, a.s.clock.now()) // undone by the next release if it is not
	return a.ended()
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

// unlocked ends a hold in Redis whose last unlock was called. It blocks until that
// is done, or the lease has ended by itself.
func (s *Session) unlocked(ctx context.Context, l *lease) error {
	io := newIOCtx(ctx)
	s.watch.stop(l, io)
	told, err := s.releaseRetrying(io, l)
	s.watch.remove(l)
	if told >= 0 && err == nil {
		others := int(told)
		if s.hub.known(l.keys.channel) {
			others--
		}
		s.turns.released(l.keys.name, l.since, s.clock.now(), others)
	}
	s.table.Released(l.keys.name, l)
	if l.unclear {
		s.clean.add(l, true, nil)
	}
	io.free()
	return err
}

// releaseRetrying returns how many subscribers were told of the release.
func (s *Session) releaseRetrying(io *ioCtx, l *lease) (told int64, err error) {
	backoff := backoff0
	for again := false; ; again = true {
		told, err = s.proto.release(io, l)
		switch {
		case err == nil && (told >= 0 || again):
			return told, nil // found nothing because the one before got through
		case err == nil:
			return told, failed("unlock", l.keys.name, ErrLost, errGone)
		case io.Err() != nil:
			return -1, failed("unlock", l.keys.name, ErrLost, errEnded)
		case !retryRelease(err):
			return -1, failed("unlock", l.keys.name, ErrLost, err, errNotReleased)
		}
		timer := time.NewTimer(jitter(backoff))
		select {
		case <-timer.C:
		case <-io.done:
			timer.Stop()
			return -1, failed("unlock", l.keys.name, ErrLost, errEnded, err)
		}
		backoff = min(2*backoff, backoffN)
	}
}

var errNotReleased = errors.New("the key stays until its lease ends")

// retryRelease reports whether a release that failed with err is worth another try.
func retryRelease(err error) bool {
	if re, ok := redisError(err); ok {
		return re == "MISCONF" || transient(err)
	}
	return transient(err)
}

// giveBack ends a hold that a call was granted but does not want, without blocking.
func (s *Session) giveBack(via *arbiter.Handle[*lease], h *hold) {
	if s.table.Return(via, h) == arbiter.Release {
		l := h.Lease
		s.watch.stop(l, &ioCtx{Context: context.Background(), done: make(chan struct{})})
		s.clean.add(l, l.unclear, func() {
			s.watch.remove(l)
			s.table.Released(l.keys.name, l)
		})
	}
}
