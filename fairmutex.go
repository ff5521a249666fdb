package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// A FairMutex is a re-entrant mutual exclusion lock that is had in order of arrival,
// over all goroutines of all processes that use it. It shares its key, and so
// excludes, with every Mutex, FairMutex and Redisson lock of the same name; those that
// are not FairMutexes have no place in its queue and get in when that is empty.
//
// Values come from [Session.FairMutex]; methods of the zero FairMutex return an error.
// A FairMutex must not be copied after first use, and is safe for concurrent use.
//
// The queue is in Redis and goes by the server's clock. Unlock gives the lock directly
// to the first waiter: it has it when the message arrives. A waiter whose connection is
// gone is passed over at no cost. One whose process is frozen keeps the lock from the
// others for its claim, 5 s or the lease of the unlocking session's watchdog if that is
// shorter. One that gives up leaves at once. One whose connection was replaced may lose
// its place, and queues again by itself.
//
// Every acquisition that has to wait costs more than one of a [Mutex], which goes
// through Redis once for many goroutines. Use a FairMutex where order matters.
type FairMutex struct {
	lockBase
	h arbiter.Handle[*lease]
}

var _ Locker = (*FairMutex)(nil)

// FairMutex returns a fair lock of the given name. It sends nothing and cannot fail: a
// bad name or option is reported by the first call that would use it.
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	b := s.lockBase(fair, name, opts)
	return &FairMutex{lockBase: b, h: s.fairs.Handle(b.keys.name)}
}

// Name returns the name of the lock.
func (m *FairMutex) Name() string { return m.keys.name }

// Lock queues for m and blocks until it is held; see [Locker]. If ctx ends first the
// place in the queue is given up.
func (m *FairMutex) Lock(ctx context.Context) error {
	if o := ownerOf(ctx); o != nil && ctx.Err() == nil && m.h.Valid() && m.s.fairs.Reenter(&m.h, o) {
		return nil
	}
	_, err := m.lockWith(ctx, "lock", true, m.enter)
	return err
}

// TryLock locks m if it is free and nobody queues for it; see [Locker].
func (m *FairMutex) TryLock(ctx context.Context) (bool, error) {
	return m.lockWith(ctx, "try to lock", false, m.enter)
}

func (m *FairMutex) enter(ctx context.Context, o *arbiter.Owner, op string, wait bool, e *AcquireEvent) (bool, error) {
	s := m.s
	w := s.fairs.Waiter(&m.h, o, false)
	defer s.fairs.Free(w)
	switch s.fairs.Enter(w, wait) {
	case arbiter.Entered:
		e.again = true
		return true, nil
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued: // for the unlock of a hold that was lost
		e.Contended = true
		select {
		case <-w.C:
		case <-ctx.Done():
			s.fairs.Quit(w)
			return false, ctxFailed(op, m.keys.name, ctx, nil)
		case <-s.closing:
			s.fairs.Quit(w)
			return false, failed(op, m.keys.name, ErrClosed)
		}
	}
	c := caller{attempt: m.attempt(ctx, wait), w: w}
	for {
		l, err := c.queue()
		e.Contended = e.Contended || c.tries > 1
		if l == nil {
			h := s.fairs.Quit(w) // not nil if another goroutine of this owner has let us in
			if h != nil && err != nil && s.fairs.Return(&m.h, h) == arbiter.Release {
				s.releaseLater(h.Lease)
			}
			return h != nil && err == nil, err
		}
		if h := s.fairs.Lookup(m.keys.name); h != nil && h.Token < l.token && (o == nil || h.Owner != o) {
			s.lose(h.Lease, errGone) // Redis gave it to l
		}
		h, used := s.fairs.Grant(w, l, l.token)
		if used {
			s.took(l, m.cfg.max)
			return true, nil
		}
		s.releaseLater(l)
		if h != nil {
			return true, nil // another goroutine of this owner has let us in
		}
	}
}

// caller is one call of Lock on a FairMutex while it asks and queues in Redis.
type caller struct {
	attempt
	w *arbiter.Waiter[*lease]
}

// queue returns the lease once it is had; or neither lease nor error if the call does
// not wait and the lock is taken, or another goroutine of the owner has let w in.
func (c *caller) queue() (*lease, error) {
	for {
		l := c.newLease(fair)
		placed, done, err := c.once(l)
		if l.token > 0 {
			return l, nil
		}
		if placed || l.unclear || c.halfway {
			c.s.clean.add(l, l.unclear, nil)
		}
		if done || err != nil {
			return nil, err
		}
	}
}

// once queues with one hold id, until it is granted, which l.token tells, its place is
// lost, or the call is done. It reports whether it may have left l in Redis.
func (c *caller) once(l *lease) (placed, done bool, err error) {
	s := c.s
	if !c.wait || !s.hub.known(c.keys.prefix+s.id) {
		// The first try is without a place, so that an uncontended lock needs no
		// subscription.
		if done, err := c.ask(l); done || err != nil {
			return false, done, err
		}
	}
	st := s.room.sit(l)
	defer s.room.rise(st)
	for !st.hears() {
		if done, err := c.pause(jitter(pollDeaf), st.C); done || err != nil {
			return false, done, err
		}
		if st.hears() {
			break
		}
		if done, err := c.ask(l); done || err != nil {
			return false, done, err
		}
	}
	s.room.enters(st)
	ttl, err := c.enter(l, true)
	switch {
	case l.token > 0:
		return true, true, nil
	case errors.Is(err, errLate):
		return true, false, nil
	case err != nil:
		if err := c.failed(err); err != nil {
			return true, true, err
		}
		ttl = jitter(backoff0) // it may be in the queue; a look will tell
	default:
		c.last = nil
	}
	s.room.queued(st, ttl)
	done, err = c.await(l, st)
	return true, done, err
}

// ask asks without queueing, until Redis answers. The call is done if the lock was
// granted, or if it does not wait.
func (c *caller) ask(l *lease) (done bool, err error) {
	for backoff := backoff0; ; backoff = min(2*backoff, backoffN) {
		_, err := c.enter(l, false)
		if err == nil {
			c.last = nil
			return l.token > 0 || !c.wait, nil
		}
		if err := c.failed(err); err != nil {
			return true, err
		}
		if done, err := c.pause(jitter(backoff), nil); done || err != nil {
			return true, err
		}
	}
}

// await waits at a seat.
func (c *caller) await(l *lease, st *seat) (done bool, err error) {
	c.tries++
	for {
		if done, err := c.pause(0, st.C); done || err != nil {
			return true, err
		}
		token, until, lost := c.s.room.answer(st)
		switch {
		case lost:
			return false, nil
		case token == 0:
			continue
		}
		l.since = c.s.clock.now()
		l.deadline.Store(until)
		if certain(l, l.since+early) && c.s.cfg.replicas == 0 {
			l.claim, l.token = true, token
			return true, nil
		}
		// Too old to be certain, or not known to the replicas yet: ask. If the claim
		// has ended, another one has the lock.
		return c.ask(l)
	}
}

// pause waits for d, if that is not 0, or a signal, or the end of the call, or until
// another goroutine of this owner lets it in.
func (c *caller) pause(d time.Duration, signal <-chan struct{}) (done bool, err error) {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
	case <-signal:
	case <-c.w.C:
		return true, nil
	case <-c.ctx.Done():
	case <-c.s.closing:
	}
	err = c.ended()
	return err != nil, err
}

// enter asks once; l.token tells whether the lock was granted. If the reply comes too
// late it asks again, then without queueing: an id is queued once only; see room.
func (c *caller) enter(l *lease, queue bool) (ttl time.Duration, err error) {
	c.tries++
	return c.try(l, func() (int64, time.Duration, error) {
		first := queue
		queue = false
		return c.s.proto.enter(c.io, l, c.ms, first, &c.s.cfg)
	})
}

// Unlock ends one Lock of m; see [Locker]. The last one gives the lock to the first
// waiter.
func (m *FairMutex) Unlock(ctx context.Context) error {
	const op = "unlock"
	if err := m.usable(op); err != nil {
		return err
	}
	m.s.calls.Add(1)
	defer m.s.end()
	o := ownerOf(ctx)
	h, outcome := m.s.fairs.Exit(&m.h, o)
	return m.exit(ctx, op, o, h, outcome)
}

// Done returns a channel that is closed when the latest hold taken through m ends; see
// [Locker].
func (m *FairMutex) Done() <-chan struct{} { return m.holdDone(m.h.Latest()) }

// Err tells whether the latest hold taken through m is held; see [Locker].
func (m *FairMutex) Err() error { return m.holdErr(m.h.Latest()) }

// FencingToken returns the fencing token of the latest hold taken through m; see
// [Mutex.FencingToken].
func (m *FairMutex) FencingToken() int64 { return holdToken(m.h.Latest()) }

// Deadline returns the time until which the hold is certain; see [Mutex.Deadline].
func (m *FairMutex) Deadline() (time.Time, bool) { return m.holdDeadline(m.h.Latest()) }
