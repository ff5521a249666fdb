package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How every lock is unlocked: the call leaves its hold, and the last one ends it. The table passes
// the lease on, keeps it, or has it released: its renewal stops, and the release is sent.

// Release ends one of the calls that h was granted to, and releases the hold if it was the last
// one: see [Member].
func (l *Lock) Release(ctx context.Context, h Held, due bool) error {
	return l.leave(ctx, h.(*local.Hold), due, true)
}

// ReleaseInBackground is Release without waiting for Redis. ctx is for observers.
func (l *Lock) ReleaseInBackground(ctx context.Context, h Held) {
	_ = l.leave(ctx, h.(*local.Hold), false, false)
}

// ReleaseOf is Release of what o has locked, by an Unlock.
func (l *Lock) ReleaseOf(ctx context.Context, o *local.Owner) error {
	if h := l.heldBy(o); h != nil && l.config.Err == nil {
		if h.State() == local.Live && h.LeaveInner() {
			return nil
		}
		if err := l.leave(ctx, h, true, true); err != ErrNotDue {
			return err
		}
	}
	return l.NotHeld()
}

// NotHeld returns the error of an Unlock of which there is nothing to release.
func (l *Lock) NotHeld() error {
	return lockerr.New(ops[l.kind][1], l.Name(), cmp.Or(l.config.Err, lockerr.ErrNotHeld))
}

// leave ends one call of h, and waits for Redis if wait. It returns ErrLost if the hold had ended
// before, or Redis did not have it; what is not confirmed was protected to its end all the same.
func (l *Lock) leave(ctx context.Context, h *local.Hold, due, wait bool) (err error) {
	l.n.Calls.Track() // nothing else would release what the end of the hold leaves
	defer l.n.Calls.End()
	op, start := ops[l.kind][1], Now()
	on, step, err := l.end(h, due, true, op)
	if err != nil || on == nil {
		return err
	}
	all := h.Owner != nil || h.State() != local.Live // else it is one of several readers
	switch {
	case step.Do == local.Release && wait:
		err = lockerr.New(op, l.Name(), l.n.release(ctx, on))
	case step.Do == local.Release:
		l.n.releaseLater(on)
	case step.Do == local.Keep:
		l.keep(on, h)
	}
	ReportUnlock(ctx, l.n.Config.Observer, h, all, l.Name(), kinds[l.kind], start, err)
	if errors.Is(err, lockerr.ErrLost) {
		return err
	}
	return nil
}

// end ends one call of h, and h with the last one. It returns the lease if there is more to do: the
// step says whether that is to be released or kept, or goes on. The error is that h was lost before,
// or that there was no such call.
func (l *Lock) end(h *local.Hold, due, pass bool, op string) (on *lease.Lease, step local.Step, err error) {
	now := l.n.Clock.Now()
	l.refresh(h, now)
	ok, last := h.Leave(due)
	if !ok {
		return nil, step, ErrNotDue
	}
	on = lease.Of(h.Lease)
	if last {
		step = l.finish(h, pass, now)
	}
	switch {
	case h.State() == local.Lost:
		return nil, step, lockerr.New(op, l.Name(), h.Cause())
	case !last && h.Owner != nil: // the owner goes on
		return nil, step, nil
	}
	return on, step, nil
}

// finish ends h after its last call has left it.
func (l *Lock) finish(h *local.Hold, pass bool, now int64) (step local.Step) {
	if t, ok := lease.Of(h.Lease).Of.(*tabled); !ok {
		if h.End(local.Ended, nil) {
			step = local.Step{Do: local.Release, Lease: h.Lease}
		}
	} else {
		may := pass && !l.n.Drained()
		next := may && (h.Owner == nil || h.Reads || !h.Owner.Reads(l.owned)) // else Redis may be giving its owner the read side
		keep := may && h.Keep > 0 && lease.Of(h.Lease).Again
		step = t.Unlock(l.keys.Name, h, next, keep, now)
	}
	if h.Owner != nil {
		h.Owner.Left(l.owned, h)
	}
	return step
}

// keep keeps a lease after h.
func (l *Lock) keep(on *lease.Lease, h *local.Hold) {
	now := l.n.Clock.Now()
	l.n.Watchdog.Idle(on, h.Since)
	l.n.Keeper.Keep(on, h.Keep, now)
	if t, ok := on.Of.(*tabled); ok && t.Kept(on.Keys.Name) != &on.Lease { // another call was faster
		l.n.Keeper.Forget(on, now)
	}
}

// giveBack ends one call of h, which was granted to a call that does not want it, and of which
// nobody was told.
func (l *Lock) giveBack(h *local.Hold, due bool) {
	on, step, _ := l.end(h, due, true, "")
	switch step.Do {
	case local.Release:
		l.n.releaseLater(on)
	case local.Keep:
		l.keep(on, h)
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
// that is known.
func (n *Node) release(ctx context.Context, l *lease.Lease) error {
	io := n.Proto.NewContext(ctx)
	now := n.Clock.Now()
	until := now + int64(unlockMost)
	n.Watchdog.Stop(l, io, until)
	l.Rests = l.MinHold > 0
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { n.Watchdog.GiveUp(l, io, now+int64(unlockLeast)) })
		defer stop()
	}
	err := n.settle(l, n.sendRelease(io, l, until))
	io.Free()
	return err
}

// settle follows up the release of l, which has failed with err.
func (n *Node) settle(l *lease.Lease, err error) error {
	damaged := err != nil && errors.As(err, new(wire.Damage)) // a key beside the lock, which has been released
	switch {
	case err == nil || err == lockerr.ErrGone || err == lockerr.ErrForced || damaged:
		n.released(l)
		if l.Indeterminate {
			n.Cleaner.Add(l, true, nil)
		}
	case errors.Is(err, errUnconfirmed):
		n.releaseLater(l) // replaces the context in the watchdog, so that it may be freed
	default:
		n.released(l)
		n.releaseSoon(l, l.Indeterminate, func() {}) // its key may outlive our deadline
	}
	if err != nil && !damaged && strings.Contains(err.Error(), "WRONGTYPE") { // somebody has replaced the key
		return lockerr.Join(lockerr.ErrGone, err)
	}
	return err
}

// released follows up that the process has done with l.
func (n *Node) released(l *lease.Lease) {
	n.Watchdog.Remove(l)
	n.Leases.Remove(l)
	if t, ok := l.Of.(*tabled); ok {
		t.Released(l.Keys.Name, &l.Lease, n.Clock.Now())
	}
}

// sendRelease sends the release of l until a time. The error is lockerr.ErrGone or ErrForced if the
// hold was gone although it was valid, errUnconfirmed, or an error for good. A release that is sent
// again, or answered after the deadline, need not find the hold.
func (n *Node) sendRelease(io *transport.Context, l *lease.Lease, until int64) (err error) {
	resent := false
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		now := n.Clock.Now()
		if io.Err() != nil || now >= until {
			if err == nil || transport.IsContextError(err) {
				return errUnconfirmed
			}
			return fmt.Errorf("%w; %w", errUnconfirmed, err)
		}
		var told int64
		told, err = n.Proto.Release(io, l.ToRelease(now))
		switch {
		case err == nil && told < 0 && !resent && l.Valid(n.Clock.Now()):
			return goneCause(l)
		case err == nil:
			return nil
		case io.Err() == nil && !lease.RetryRelease(err):
			return err
		}
		resent = true
		timing.Pause(io, timing.Jitter(backoff))
	}
}

// errUnconfirmed: Redis did not confirm a release in time. It is alone if Redis did not answer.
var errUnconfirmed = errors.New("no confirmation from Redis; the release goes on in the background")

// goneCause returns why Redis does not have l when that is to be released, though it is valid: the
// message that it was forced open has found no hold any more.
func goneCause(l *lease.Lease) error {
	if l.Forced.Load() {
		return lockerr.ErrForced
	}
	return lockerr.ErrGone
}

// releaseLater releases l in the background.
func (n *Node) releaseLater(l *lease.Lease) {
	n.Watchdog.Stop(l, transport.Background(), n.Clock.Now()+int64(l.Length))
	n.releaseSoon(l, l.Indeterminate, func() { n.released(l) })
}

// releaseSoon has the cleaner release l. Close waits for that. done is called after it.
func (n *Node) releaseSoon(l *lease.Lease, indeterminate bool, done func()) {
	n.Calls.Leave(l)
	n.Cleaner.Add(l, indeterminate, func(err error) {
		done()
		n.Calls.Over(l, err)
	})
}
