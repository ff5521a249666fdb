package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How a lease is released in Redis. Each of these stops its renewal first, then sends the
// release, and at last lets the arbiter's next waiter ask.

// unlockMost bounds how long Unlock waits for Redis.
const unlockMost = 2 * time.Second

// released is the outcome of a release.
type released struct {
	held bool  // Redis had the hold, as far as that is known
	err  error // why Redis has not confirmed the release, or that the hold was gone
}

// release releases l, with as many tries as it takes unless once is set. If Redis does not confirm
// it within d, the cleaner goes on.
func (e *Engine) release(ctx context.Context, l *lease.Lease, d time.Duration, once bool) released {
	io := e.proto.NewContext(ctx)
	until := e.Clock.Now() + int64(d)
	e.watchdog.Stop(l, io, until)
	r := e.releaseUnder(io, l, sending{until: until, once: once, next: e.successor(l)})
	io.Free()
	return r
}

// sending says how to send a release.
type sending struct {
	until int64        // not after that
	once  bool         // do not try again
	again bool         // it was sent before, so that it need not find the hold
	next  *lease.Lease // queued in the same step, for the next contender of this process; nil: none
}

// successor returns a lease for the goroutine that waits for l's lock. Its process has had its
// turn: it queues behind others. nil if there is none that wants such a lease.
func (e *Engine) successor(l *lease.Lease) *lease.Lease {
	if l.Kind != wire.Plain && l.Kind != wire.Write || !l.Renewed || e.Closed() ||
		!e.arbiters[l.Kind].Awaits(l.Keys.Name, int64(l.Length)) {
		return nil
	}
	next := &lease.Lease{Ref: l.Ref}
	next.ID = e.newID(l.Kind)
	return next
}

// releaseTogether releases leases of Mutexes in one slot with one script, and what that leaves
// one by one.
func (e *Engine) releaseTogether(ctx context.Context, ls []*lease.Lease) []released {
	rs := make([]released, len(ls))
	io := e.proto.NewContext(ctx)
	now := e.Clock.Now()
	until := now + int64(unlockMost)
	first := until
	for _, l := range ls {
		e.watchdog.Stop(l, io, until)
		first = min(first, l.Deadline.Load())
	}
	io.Bound(e.proto.Conn, time.Duration(first-now))
	told, err := e.proto.ReleaseSome(io, lease.Refs(ls))
	for i, l := range ls {
		if err == nil && told[i] >= 0 {
			e.confirmed(l, nil)
			rs[i].held = true
		}
	}
	for i, l := range ls {
		if err != nil || told[i] < 0 {
			rs[i] = e.releaseUnder(io, l, sending{until: until, again: err != nil})
		}
	}
	io.Free()
	return rs
}

// releaseUnder releases l under io, which the watchdog ends. What Redis does not confirm is left
// to the cleaner.
func (e *Engine) releaseUnder(io *transport.Context, l *lease.Lease, how sending) released {
	next, err := e.sendRelease(io, l, how)
	damaged := errors.As(err, new(wire.Damage)) // a key beside the lock, which has been released
	switch {
	case err == nil || err == lease.ErrGone || damaged:
		e.confirmed(l, next)
	case errors.Is(err, ErrUnconfirmed):
		l.Late.Store(true)
		e.releaseLater(l) // replaces io in the watchdog, so that it may be freed
	default:
		e.watchdog.Remove(l)
		e.arbiters[l.Kind].Released(l.Keys.Name, l)
		e.cleaner.Add(l, l.Indeterminate, nil) // its key may outlive our deadline
	}
	foreign := err != nil && !damaged && strings.Contains(err.Error(), "WRONGTYPE") // somebody has replaced the key
	return released{held: err != lease.ErrGone && !foreign, err: err}
}

// confirmed completes a release that Redis confirmed. next is what it has queued, nil if nothing.
func (e *Engine) confirmed(l, next *lease.Lease) {
	e.watchdog.Remove(l)
	if !e.arbiters[l.Kind].ReleasedTo(l.Keys.Name, l, next, int64(l.Length)) && next != nil {
		e.cleaner.Add(next, false, nil) // nobody waits any more
	}
	if l.Indeterminate {
		e.cleaner.Add(l, true, nil)
	}
}

// sendRelease sends the release of l. It returns what it has queued, nil if nothing; or
// lease.ErrGone if the hold was gone although it was certain, ErrUnconfirmed, or an error for good.
// A release that is answered after the deadline need not find the hold.
func (e *Engine) sendRelease(io *transport.Context, l *lease.Lease, how sending) (next *lease.Lease, err error) {
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		now := e.Clock.Now()
		if io.Err() != nil || now >= how.until {
			return nil, unconfirmed(err)
		}
		io.Bound(e.proto.Conn, time.Duration(min(l.Deadline.Load(), how.until)-now))
		var told int64
		if next, how.next = how.next, nil; next == nil { // an id is queued once
			told, err = e.proto.Release(io, &l.Ref, nil)
		} else {
			next.Sent = now
			told, err = e.proto.Release(io, &l.Ref, &next.Ref)
		}
		if next != nil && err != nil {
			e.cleaner.Add(next, true, nil)
		}
		switch {
		case err == nil && told < 0 && !how.again && lease.Certain(l, e.Clock.Now()):
			return nil, lease.ErrGone
		case err == nil && told < 0:
			return nil, nil
		case err == nil:
			if wire.IsToken(told) {
				next.Token = told
			}
			return next, nil
		case io.Err() == nil && !lease.RetryRelease(err):
			return nil, err
		case how.once:
			return nil, unconfirmed(err)
		}
		how.again = true
		timing.Pause(io, timing.Jitter(backoff))
	}
}

// ErrUnconfirmed: Redis did not confirm a release in time. It is alone if Redis did not answer.
var ErrUnconfirmed = errors.New("no confirmation from Redis; the release goes on in the background")

func unconfirmed(last error) error {
	if last == nil || transport.IsContextError(last) {
		return ErrUnconfirmed
	}
	return fmt.Errorf("%w; %w", ErrUnconfirmed, last)
}

// releaseLater releases l in the background.
func (e *Engine) releaseLater(l *lease.Lease) {
	e.watchdog.Stop(l, transport.Background(), e.Clock.Now()+int64(l.Length))
	e.cleaner.Add(l, l.Indeterminate, func() {
		e.watchdog.Remove(l)
		e.arbiters[l.Kind].Released(l.Keys.Name, l)
	})
}
