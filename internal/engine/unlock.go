package engine

import (
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

// How every lock is unlocked: the arbiter says what the unlock amounts to, the lease's renewal stops, the
// release is sent, and the arbiter's next waiter asks.

// Unlock ends one Lock, and releases the hold if it was the last one.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.config.Err != nil {
		return lockerr.New(ops[l.kind][1], l.Name(), l.config.Err)
	}
	o := arbiter.OwnerOf(ctx)
	if l.table.ExitInner(&l.handle, o) {
		return nil
	}
	l.e.track()
	defer l.e.End()
	u := unlocking{Lock: l}
	u.exit(o)
	r := release{held: true}
	if u.Outcome == arbiter.Release {
		r = l.e.release(ctx, u.Lease, u.Next)
	}
	return u.finish(ctx, r)
}

// ReleaseInBackground ends one Lock of o without waiting for Redis. ctx is for observers.
func (l *Lock) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	l.e.track() // nobody else would release what exit has ended
	defer l.e.End()
	u := unlocking{Lock: l}
	u.exit(o)
	if u.Outcome == arbiter.Release {
		l.e.releaseLater(u.Lease)
	}
	_ = u.finish(ctx, release{held: true})
}

// giveBack ends one Lock of h, which was granted to a call that does not want it, and of which
// nobody was told.
func (l *Lock) giveBack(h *lease.Hold) {
	x := l.table.Return(&l.handle, h, lockerr.ErrExpired)
	switch x.Outcome {
	case arbiter.Expired:
		l.e.lost(x.Lease, lockerr.ErrExpired, x.Lost)
	case arbiter.Release:
		l.e.releaseLater(x.Lease)
	}
}

// unlocking is an unlock that the arbiter has counted.
type unlocking struct {
	*Lock
	arbiter.Exit[*lease.Lease]
	told *Unlocking
}

// exit ends one Lock of o, or of what was last taken through l if o is nil, in the arbiter.
func (u *unlocking) exit(o *arbiter.Owner) {
	u.Exit = u.table.Exit(&u.handle, o, lockerr.ErrExpired)
	switch u.Outcome {
	case arbiter.Expired: // for the caller such a hold was lost, like any other
		u.e.lost(u.Lease, lockerr.ErrExpired, u.Lost)
		u.Outcome = arbiter.WasLost
	case arbiter.Release, arbiter.Passed, arbiter.Left:
		all := u.kind != wire.Read || u.Hold.State() != arbiter.Live
		u.told = Unlock(u.e.Config.Observer, u.Hold, all, u.Name(), kinds[u.kind])
	}
}

// finish completes an unlock, and returns its error: what Redis does not confirm was protected to its end all
// the same.
func (u *unlocking) finish(ctx context.Context, r release) (err error) {
	op := ops[u.kind][1]
	switch {
	case u.Outcome == arbiter.NotHeld:
		return lockerr.New(op, u.Name(), lockerr.ErrNotHeld)
	case u.Outcome == arbiter.WasLost:
		return lockerr.New(op, u.Name(), u.Hold.Cause())
	case !r.held:
		err = lockerr.New(op, u.Name(), lockerr.ErrGone, r.err)
		u.told.End(ctx, err, lockerr.ErrGone)
	case r.err != nil:
		u.told.End(ctx, lockerr.New(op, u.Name(), r.err), nil)
	default:
		u.told.End(ctx, nil, nil)
	}
	return err
}

// Unlock waits for Redis as long as its context lives, but at least unlockLeast and at most unlockMost.
const (
	unlockLeast = 100 * time.Millisecond
	unlockMost  = 2 * time.Second
)

// release is the outcome of a release.
type release struct {
	held bool  // Redis had the hold, as far as that is known
	err  error // why Redis has not confirmed the release, or that the hold was gone
}

// release releases l, with as many tries as it takes. If Redis does not confirm it in time, the
// cleaner goes on. next is the class of the waiter of this process that comes next; see arbiter.Exit.
func (e *Engine) release(ctx context.Context, l *lease.Lease, next int64) release {
	io := e.proto.NewContext(ctx)
	now := e.Clock.Now()
	until := now + int64(unlockMost)
	e.watchdog.Stop(l, io, until)
	if rests := l.Since + int64(l.MinHold); rests > now {
		l.Rests, l.RestID = rests, e.newID(l.Kind)
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { e.watchdog.GiveUp(l, io, now+int64(unlockLeast)) })
		defer stop()
	}
	queued, err := e.sendRelease(io, l, until, e.successor(l, next), false)
	r := e.settle(l, queued, err)
	io.Free()
	return r
}

// settle follows up the release of l, which has failed with err or queued a lease.
func (e *Engine) settle(l, queued *lease.Lease, err error) release {
	damaged := err != nil && errors.As(err, new(wire.Damage)) // a key beside the lock, which has been released
	switch {
	case err == nil || err == lockerr.ErrGone || damaged:
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
	foreign := err != nil && !damaged && strings.Contains(err.Error(), "WRONGTYPE") // somebody has replaced the key
	return release{held: err != lockerr.ErrGone && !foreign, err: err}
}

// successor returns a lease to queue with the release of l, for the goroutine that waits for the lock. Its
// process has had its turn: it queues behind others. nil if there is none that wants such a lease.
func (e *Engine) successor(l *lease.Lease, class int64) *lease.Lease {
	if class != int64(l.Length) || !l.Renewed || e.Closed() {
		return nil
	}
	next := &lease.Lease{Ref: l.Ref}
	next.ID = e.newID(l.Kind)
	return next
}

// sendRelease sends the release of l until a time. It returns what it has queued, nil if nothing; or
// lockerr.ErrGone if the hold was gone although it was certain, errUnconfirmed, or an error for good.
// A release that is sent again, or answered after the deadline, need not find the hold.
func (e *Engine) sendRelease(io *transport.Context, l *lease.Lease, until int64, next *lease.Lease, resent bool) (queued *lease.Lease, err error) {
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		now := e.Clock.Now()
		if io.Err() != nil || now >= until {
			if err == nil || transport.IsContextError(err) {
				return nil, errUnconfirmed
			}
			return nil, fmt.Errorf("%w; %w", errUnconfirmed, err)
		}
		io.Bound(e.proto.Conn, time.Duration(min(l.Deadline.Load(), until)-now))
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
			return nil, lockerr.ErrGone
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
