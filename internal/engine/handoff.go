package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How a hold goes to another process. One script gives it from hold id to hold id: from the holder's to that of a
// ticket, which nothing renews, and from there to that of who adopts it. So the lock is taken all the time. The first
// has ended its hold before the script is sent, and the second has one when it has been answered.

const (
	opHandOff = "hand off"
	opAdopt   = "adopt"

	leastHandoff = 10 * time.Millisecond
)

var (
	errInDo  = errors.New("a Do around this call has locked it, and is to unlock it: use Lock")
	errTwice = errors.New("its owner has locked it more than once: unlock the inner ones first")
)

// HandOff ends the hold of ctx's owner without a release. It returns a ticket, which keeps the lock for d.
func (l *Lock) HandOff(ctx context.Context, d time.Duration) (ticket string, err error) {
	fail := func(err error) (string, error) { return "", lockerr.New(opHandOff, l.Name(), err) }
	inDo := l.part().around(ctx, func(_ *Scope, p Part) bool { return p.Engine == l.e })
	switch {
	case l.config.Err != nil:
		return fail(l.config.Err)
	case d < leastHandoff:
		return fail(fmt.Errorf("%w: a ticket for %v: must be at least %v", lockerr.ErrOption, d, leastHandoff))
	case inDo:
		return fail(errInDo)
	case ctx.Err() != nil:
		return "", lockerr.Ended(opHandOff, l.Name(), ctx, nil)
	}
	l.e.track()
	defer l.e.End()
	start := Now()
	x := l.table.HandOff(&l.handle, arbiter.OwnerOf(ctx), lockerr.ErrExpired)
	if x.Outcome == arbiter.Kept {
		return fail(errTwice)
	}
	if err := l.notHeld(x, opHandOff); err != nil {
		return "", err
	}
	t := wire.NewTicket(l.e.Config.Prefix, l.Name(), l.e.id)
	to := &lease.Lease{Ref: x.Lease.Ref}
	to.ID, to.Length = t.HoldID(), d
	at, err := l.e.sendHandoff(ctx, x.Lease, to)
	switch {
	case errors.Is(err, errUnconfirmed) && ctx.Err() != nil:
		err = lockerr.Ended(opHandOff, l.Name(), ctx, err)
	case errors.Is(err, errUnconfirmed):
		err = lockerr.New(opHandOff, l.Name(), lockerr.ErrClosed, err)
	default:
		err = lockerr.New(opHandOff, l.Name(), err)
	}
	ReportUnlock(ctx, l.e.Config.Observer, x.Hold, true, l.Name(), kinds[l.kind], start, err)
	if err != nil {
		return "", err
	}
	t.Until = at + d.Milliseconds()
	return t.Text(), nil
}

// sendHandoff gives the hold on l to the ticket to, with as many tries as it takes, until ctx, the lease or the session
// ends. It returns the time of the server. After an error what either may have is released in the background.
func (e *Engine) sendHandoff(ctx context.Context, l, to *lease.Lease) (at int64, err error) {
	io := e.proto.NewContext(ctx)
	e.watchdog.Stop(l, io, l.Deadline.Load())
	giveUp := func() { e.watchdog.GiveUp(l, io, e.Clock.Now()) }
	defer context.AfterFunc(ctx, giveUp)()
	defer context.AfterFunc(e.callCtx, giveUp)()
	start, tries := e.Clock.Now(), 0
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		tries++
		at, _, err = e.proto.Handoff(io, l.ID, &to.Ref, true)
		if err == nil || io.Err() != nil || !transport.Transient(err) {
			break
		}
		timing.Pause(io, timing.Jitter(backoff))
	}
	held, over := lease.Certain(l, e.Clock.Now()+lease.Early), e.Clock.Now()-start >= int64(to.Length)
	code, _ := transport.Code(err)
	switch {
	case err == nil && over && (at != 0 || held && tries > 1):
		err = lockerr.ErrTooLate // an earlier try may have given it to the ticket
	case err == nil && at == 0 && held:
		err = lockerr.ErrGone
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
		e.cleaner.AddTicket(to, l)
		if !errors.Is(err, lockerr.ErrLost) {
			end = errUnconfirmed // it is released in the background
		}
	}
	_ = e.settle(l, nil, end)
	io.Free()
	return at, err
}

// Adopt makes l, a new handle, hold the lock that was handed off with that ticket.
func (l *Lock) Adopt(ctx context.Context, t *wire.Ticket) (err error) {
	c := NewCall(ctx, l.e.Config.Observer, l.Name(), kinds[l.kind], opAdopt, true)
	defer func() { c.End(err == nil, err) }()
	switch {
	case l.config.Err != nil:
		return lockerr.New(opAdopt, l.Name(), l.config.Err)
	case ctx.Err() != nil:
		return lockerr.Ended(opAdopt, l.Name(), ctx, nil)
	case !l.e.Begin():
		return lockerr.New(opAdopt, l.Name(), lockerr.ErrClosed)
	}
	defer l.e.End()
	ctx, stop := l.config.Bounded(ctx, &c)
	defer stop()
	o := l.handle.OwnerOf(ctx)
	w := l.table.Waiter(&l.handle, o, l.shares(), int64(l.config.Lease))
	defer l.table.Free(w)
	w.Keep = int64(l.config.Keep)
	if !l.table.EnterBeside(w) {
		return lockerr.New(opAdopt, l.Name(), lockerr.ErrUnlockFirst, l.handle.LossOf(o))
	}
	a := attempt{Lock: l, ctx: ctx, io: transport.ForCaller(ctx, l.e.callCtx), c: &c, w: w, from: t.HoldID()}
	h := a.newLease()
	out, now, err := a.insist(h)
	if out == granted {
		h.Top, h.Turn = h.Token+wire.Tokens(h.Token)-1, h.Since
		if hold, used := l.table.Grant(w, h, h.Token); used {
			l.e.took(h, l.config.MaxHold)
			c.Got(hold, false)
			return nil
		}
		l.e.releaseLater(h) // it is lost, or another of the owner's holds is
	} else if h.Indeterminate {
		l.e.cleaner.Add(h, true, nil)
	}
	switch {
	case out == granted && l.handle.MustUnlockFirst(o):
		err = lockerr.New(opAdopt, l.Name(), lockerr.ErrUnlockFirst, l.handle.LossOf(o))
	case err == nil && out == again && now.Milliseconds() >= t.Until:
		err = lockerr.New(opAdopt, l.Name(), lockerr.ErrTooLate)
	case err == nil:
		err = lockerr.New(opAdopt, l.Name(), lockerr.ErrUsed)
	}
	_, err = a.letIn(err)
	return err
}

// ReadTicket returns the ticket with that text, if it is of a session with the same prefix.
func (e *Engine) ReadTicket(text string) (*wire.Ticket, error) {
	t, err := wire.ReadTicket(text)
	if err != nil {
		return nil, lockerr.New(opAdopt, "", err)
	}
	if t.Prefix != e.Config.Prefix {
		return nil, lockerr.New(opAdopt, t.Name, fmt.Errorf("the ticket is of a session with the prefix %q, this one has %q (WithPrefix)",
			t.Prefix, e.Config.Prefix))
	}
	return t, nil
}
