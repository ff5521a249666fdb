package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How every lock is unlocked: the arbiter says what the unlock amounts to, the lease's renewal
// stops, the release is sent, and the arbiter's next waiter asks.

// Release ends one of the calls that h was granted to, and releases the hold if it was the last
// one: see [Member].
func (l *Lock) Release(ctx context.Context, h Held, due bool) error {
	l.e.track() // nothing else would release what Exit has ended
	defer l.e.End()
	start, x := Now(), l.table.Exit(&l.side, h.(*lease.Hold), due, lockerr.ErrExpired)
	if x.Outcome == arbiter.NotHeld {
		return ErrNotDue
	}
	return l.unlocked(ctx, start, x, true)
}

// ReleaseOf is Release of what o has locked, by an Unlock.
func (l *Lock) ReleaseOf(ctx context.Context, o *arbiter.Owner) error {
	if l.config.Err == nil && l.table.ExitInner(&l.side, o) {
		return nil
	}
	l.e.track()
	defer l.e.End()
	start, x := Now(), l.table.ExitOwner(&l.side, o, lockerr.ErrExpired)
	if x.Outcome == arbiter.NotHeld {
		return l.NotHeld()
	}
	return l.unlocked(ctx, start, x, true)
}

// NotHeld returns the error of an Unlock of which there is nothing to release.
func (l *Lock) NotHeld() error {
	return lockerr.New(ops[l.kind][1], l.Name(), cmp.Or(l.config.Err, lockerr.ErrNotHeld))
}

// ReleaseInBackground is Release without waiting for Redis. ctx is for observers.
func (l *Lock) ReleaseInBackground(ctx context.Context, h Held) {
	l.e.track()
	defer l.e.End()
	start, x := Now(), l.table.Exit(&l.side, h.(*lease.Hold), false, lockerr.ErrExpired)
	if x.Outcome != arbiter.NotHeld {
		_ = l.unlocked(ctx, start, x, false)
	}
}

// unlocked follows up an unlock, which began at start. It returns ErrLost if Redis did not have the
// hold; what is not confirmed was protected to its end all the same.
func (l *Lock) unlocked(ctx context.Context, start int64, x arbiter.Exit[*lease.Lease], wait bool) (err error) {
	op := ops[l.kind][1]
	if err := l.lossOf(x, op); err != nil || x.Outcome == arbiter.Kept {
		return err
	}
	all := !l.kind.Joins() || x.Hold.State() != arbiter.Live
	switch {
	case x.Outcome == arbiter.Release && wait:
		err = lockerr.New(op, l.Name(), l.e.release(ctx, x.Lease, x.Next))
	case x.Outcome == arbiter.Release:
		l.e.releaseLater(x.Lease)
	case x.Outcome == arbiter.Idle:
		l.e.watchdog.Idle(x.Lease, x.Hold.Since)
	}
	ReportUnlock(ctx, l.e.Config.Observer, x.Hold, all, l.Name(), kinds[l.kind], start, err)
	if errors.Is(err, lockerr.ErrLost) {
		return err
	}
	return nil
}

// lossOf returns why x was not the end of a hold that was valid, nil if it was.
func (l *Lock) lossOf(x arbiter.Exit[*lease.Lease], op string) error {
	switch x.Outcome {
	case arbiter.Expired: // for the caller such a hold was lost, like any other
		l.e.lost(x.Lease, lockerr.ErrExpired, x.Lost)
		return lockerr.New(op, l.Name(), lockerr.ErrExpired)
	case arbiter.WasLost:
		return lockerr.New(op, l.Name(), x.Hold.Cause())
	}
	return nil
}

// giveBack ends one Lock of h, which was granted to a call that does not want it, and of which
// nobody was told.
func (l *Lock) giveBack(h *lease.Hold, due bool) {
	x := l.table.Exit(&l.side, h, due, lockerr.ErrExpired)
	switch x.Outcome {
	case arbiter.Expired:
		l.e.lost(x.Lease, lockerr.ErrExpired, x.Lost)
	case arbiter.Release:
		l.e.releaseLater(x.Lease)
	case arbiter.Idle:
		l.e.watchdog.Idle(x.Lease, x.Hold.Since)
	}
}

// Unlock waits for Redis as long as its context lives, but at least unlockLeast and at most
// unlockMost.
const (
	unlockLeast = 100 * time.Millisecond
	unlockMost  = 2 * time.Second
)

// release releases l, with as many tries as it takes. If Redis does not confirm it in time, the
// cleaner goes on, and the error says why. It is ErrGone if Redis did not have the hold, as far as
// that is known. next is the class of the waiter of this process that comes next; see arbiter.Exit.
func (e *Engine) release(ctx context.Context, l *lease.Lease, next int64) error {
	io := e.proto.NewContext(ctx)
	now := e.Clock.Now()
	until := now + int64(unlockMost)
	e.watchdog.Stop(l, io, until)
	if l.MinHold > 0 {
		l.Rest = &wire.Rest{ID: e.newID(l.Kind)}
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { e.watchdog.GiveUp(l, io, now+int64(unlockLeast)) })
		defer stop()
	}
	queued, err := e.sendRelease(io, l, until, e.successor(l, next))
	err = e.settle(l, queued, err)
	io.Free()
	return err
}

// settle follows up the release of l, which has failed with err or queued a lease.
func (e *Engine) settle(l, queued *lease.Lease, err error) error {
	damaged := err != nil && errors.As(err, new(wire.Damage)) // a key beside the lock, which has been released
	switch {
	case err == nil || err == lockerr.ErrGone || err == lockerr.ErrForced || damaged:
		e.watchdog.Remove(l)
		if !e.arbiters[l.Kind].Released(l.Keys.Name, l, queued, int64(l.Length)) && queued != nil {
			e.cleaner.Add(queued, false, nil) // nobody waits any more
		}
		if l.Indeterminate {
			e.cleaner.Add(l, true, nil)
		}
	case errors.Is(err, errUnconfirmed):
		l.Late.Store(true)
		e.releaseLater(l) // replaces the context in the watchdog, so that it may be freed
	default:
		e.watchdog.Remove(l)
		e.arbiters[l.Kind].Released(l.Keys.Name, l, nil, 0)
		e.releaseSoon(l, l.Indeterminate, func() {}) // its key may outlive our deadline
	}
	if err != nil && !damaged && strings.Contains(err.Error(), "WRONGTYPE") { // somebody has replaced the key
		return lockerr.Join(lockerr.ErrGone, err)
	}
	return err
}

// successor returns a lease to queue with the release of l, for the goroutine that waits for the
// lock. Its process has had its turn: it queues behind others. nil if there is none that wants such
// a lease.
func (e *Engine) successor(l *lease.Lease, class int64) *lease.Lease {
	if class != int64(l.Length) || !l.Renewed || e.Draining() {
		return nil
	}
	next := &lease.Lease{Ref: l.Ref}
	next.ID = e.newID(l.Kind)
	return next
}

// sendRelease sends the release of l until a time. It returns what it has queued, nil if nothing;
// or lockerr.ErrGone or ErrForced if the hold was gone although it was certain, errUnconfirmed, or
// an error for good. A release that is sent again, or answered after the deadline, need not find
// the hold.
func (e *Engine) sendRelease(io *transport.Context, l *lease.Lease, until int64, next *lease.Lease) (queued *lease.Lease, err error) {
	resent := false
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		now := e.Clock.Now()
		if io.Err() != nil || now >= until {
			if err == nil || transport.IsContextError(err) {
				return nil, errUnconfirmed
			}
			return nil, fmt.Errorf("%w; %w", errUnconfirmed, err)
		}
		var told int64
		if queued, next = next, nil; queued == nil { // an id is queued once
			told, err = e.proto.Release(io, l.ToRelease(now), nil)
		} else {
			queued.Sent = now
			told, err = e.proto.Release(io, l.ToRelease(now), &queued.Ref)
		}
		if queued != nil && err != nil {
			e.cleaner.Add(queued, true, nil)
		}
		switch {
		case err == nil && told < 0 && !resent && lease.Certain(l, e.Clock.Now()):
			return nil, e.goneCause(l)
		case err == nil && told < 0:
			return nil, nil
		case err == nil:
			if wire.IsToken(told) {
				queued.Token = told
			}
			return queued, nil
		case io.Err() == nil && !lease.RetryRelease(err):
			return nil, err
		}
		resent = true
		timing.Pause(io, timing.Jitter(backoff))
	}
}

// errUnconfirmed: Redis did not confirm a release in time. It is alone if Redis did not answer.
var errUnconfirmed = errors.New("no confirmation from Redis; the release goes on in the background")

// releaseLater releases l in the background.
func (e *Engine) releaseLater(l *lease.Lease) {
	e.watchdog.Stop(l, transport.Background(), e.Clock.Now()+int64(l.Length))
	e.releaseSoon(l, l.Indeterminate, func() {
		e.watchdog.Remove(l)
		e.arbiters[l.Kind].Released(l.Keys.Name, l, nil, 0)
	})
}
