package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How a hold goes to another process. One script gives it from hold id to hold id: from the
// holder's to that of a ticket, which nothing renews, and from there to that of who adopts it. So
// the lock is taken all the time. The first has ended its hold before the script is sent, and the
// second has one when it has been answered.

const (
	opHandOff = "hand off"
	opAdopt   = "adopt"

	leastHandoff = 10 * time.Millisecond
)

var errTwice = errors.New("other holds of its owner go on, so the lock cannot leave this process: only this hold has ended")

// ErrNoMutex: a hold that is not one of a Mutex was to be handed off.
var ErrNoMutex = fmt.Errorf("%w: only the hold of a Mutex can be handed off: it is released instead", lockerr.ErrOption)

// HandOff ends h without a release. It returns a ticket, which keeps the lock for d. After an error
// h has ended as well.
func (l *Lock) HandOff(ctx context.Context, h Held, d time.Duration) (ticket string, err error) {
	fail := func(err error) (string, error) { return "", lockerr.New(opHandOff, l.Name(), err) }
	if !l.kind.HandsOff() || d < leastHandoff || ctx.Err() != nil {
		switch {
		case !l.kind.HandsOff():
			err = ErrNoMutex
		case d < leastHandoff:
			err = fmt.Errorf("%w: a ticket for %v: must be at least %v; the lock is released", lockerr.ErrOption, d, leastHandoff)
		default:
			err = lockerr.Join(ctx.Err(), context.Cause(ctx))
		}
		return fail(lockerr.Join(err, l.Release(ctx, h, false)))
	}
	l.n.Calls.Track()
	defer l.n.Calls.End()
	start, held := Now(), h.(*local.Hold)
	on, _, err := l.end(held, false, false, opHandOff)
	switch {
	case err == ErrNotDue:
		return fail(lockerr.ErrNotHeld)
	case err != nil:
		return "", err
	case on == nil:
		return fail(errTwice)
	}
	t := wire.NewTicket(l.n.Config.Prefix, l.Name(), l.n.ID)
	to := &lease.Lease{Ref: on.Ref}
	to.ID, to.Length = t.HoldID(), d
	at, err := l.n.sendHandoff(ctx, on, to)
	switch {
	case errors.Is(err, errUnconfirmed) && ctx.Err() != nil:
		err = lockerr.Ended(opHandOff, l.Name(), ctx, err)
	case errors.Is(err, errUnconfirmed):
		err = lockerr.New(opHandOff, l.Name(), lockerr.ErrClosed, err)
	default:
		err = lockerr.New(opHandOff, l.Name(), err)
	}
	told := err != nil
	defer func() {
		if !told { // an observer has panicked, and nobody has the ticket
			l.n.Cleaner.Add(to, false, nil)
		}
	}()
	ReportUnlock(ctx, l.n.Config.Observer, held, true, l.Name(), kinds[l.kind], start, err)
	if told = true; err != nil {
		return "", err
	}
	t.Until = at + d.Milliseconds()
	return t.Text(), nil
}

// sendHandoff gives the hold on l to the ticket to, with as many tries as it takes, until ctx, the
// lease or the session ends. It returns the time of the server. After an error what either may have
// is released in the background.
func (n *Node) sendHandoff(ctx context.Context, l, to *lease.Lease) (at int64, err error) {
	io := n.Proto.NewContext(ctx)
	n.Watchdog.Stop(l, io, l.Deadline.Load())
	giveUp := func() { n.Watchdog.GiveUp(l, io, n.Clock.Now()) }
	defer context.AfterFunc(ctx, giveUp)()
	defer context.AfterFunc(n.Closing, giveUp)()
	start, tries := n.Clock.Now(), 0
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		tries++
		at, _, err = n.Proto.Handoff(io, l.ID, &to.Ref, true, "")
		if err == nil || io.Err() != nil || !transport.Transient(err) {
			break
		}
		timing.Pause(io, timing.Jitter(backoff))
	}
	held, over := l.Valid(n.Clock.Now()+lease.Early), n.Clock.Now()-start >= int64(to.Length)
	code, _ := transport.Code(err)
	switch {
	case err == nil && over && (at != 0 || held && tries > 1):
		err = lockerr.ErrTooLate // an earlier try may have given it to the ticket
	case err == nil && at == 0 && held:
		err = goneCause(l)
	case at == 0 && !held:
		err = lockerr.ErrExpired
	case code == wire.CodeNotLock: // somebody has replaced the key
		err = lockerr.Join(lockerr.ErrGone, err)
	case err != nil && io.Err() != nil && transport.IsContextError(err):
		err = errUnconfirmed
	case err != nil && io.Err() != nil:
		err = fmt.Errorf("%w; %w", errUnconfirmed, err)
	}
	end := err
	if err != nil {
		n.Cleaner.AddTicket(to, l)
		if !errors.Is(err, lockerr.ErrLost) {
			end = errUnconfirmed // it is released in the background
		}
	}
	_ = n.settle(l, end)
	io.Free()
	return at, err
}

// Adopt acquires l, which was handed off with that ticket, for o unless that is nil.
func (l *Lock) Adopt(ctx context.Context, o *local.Owner, t *wire.Ticket) (Held, error) {
	c := NewCall(ctx, l.n.Config.Observer, l.Name(), kinds[l.kind], opAdopt, true)
	h, err := l.adopt(ctx, o, t, &c)
	c.End(h != nil, err, l.takeBack)
	if h == nil {
		return nil, err
	}
	return h, nil
}

// adopt acquires what a ticket has. No table knows of it: whatever other calls of the process do,
// the lock is this call's. So it is released after its hold, and goes to the first that waits.
func (l *Lock) adopt(ctx context.Context, o *local.Owner, t *wire.Ticket, c *Call) (*local.Hold, error) {
	switch {
	case l.config.Err != nil:
		return nil, l.fails(c, l.config.Err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(opAdopt, l.Name(), ctx, nil)
	case !l.n.Calls.Begin():
		return nil, l.fails(c, lockerr.ErrClosed)
	}
	defer l.n.Calls.End()
	if l.n.Drained() {
		return nil, l.fails(c, lockerr.ErrClosed)
	}
	a := &acquisition{Lock: l, session: l.n.Draining, start: l.n.Clock.Now(), c: c, apart: true, ticket: t.HoldID(), until: t.Until}
	ctx, stop := l.config.Bounded(ctx, c)
	defer stop()
	a.ctx = ctx
	if o != nil { // it must not use up what its owner cannot have
		l.refresh(l.heldBy(o), l.n.Clock.Now())
		if lapsed := o.Lapsed(l.owned); lapsed != nil {
			return nil, l.fails(c, lockerr.ErrUnlockFirst, lapsed.Cause())
		}
	}
	a.call = l.n.pool.NewCall()
	defer l.n.pool.Free(a.call)
	a.call.Owner = o
	h, _, err := a.Ask(local.Step{})
	if h == nil || o == nil {
		return h, err
	}
	if other := o.Adopt(l.owned, h); other != nil { // lost meanwhile, or it cannot be: the lock was the ticket's
		l.giveBack(h, c.Due)
		return nil, l.fails(c, lockerr.ErrUnlockFirst, other.Cause())
	}
	return h, nil
}

// unused returns why a ticket has nothing, at the time of the server.
func (a *acquisition) unused(now time.Duration) error {
	if now.Milliseconds() >= a.until {
		return a.fails(a.c, lockerr.ErrTooLate)
	}
	return a.fails(a.c, lockerr.ErrUsed)
}

// ReadTicket returns the ticket with that text, if it is of a session with the same prefix.
func (n *Node) ReadTicket(text string) (*wire.Ticket, error) {
	t, err := wire.ReadTicket(text)
	if err != nil {
		return nil, lockerr.New(opAdopt, "", err)
	}
	if t.Prefix != n.Config.Prefix {
		return nil, lockerr.New(opAdopt, t.Name, fmt.Errorf(
			"%w: the ticket is of a session with the prefix %q, this one has %q (WithPrefix)", lockerr.ErrOption,
			t.Prefix, n.Config.Prefix))
	}
	return t, nil
}
