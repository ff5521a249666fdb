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
	l.e.track()
	defer l.e.End()
	start := Now()
	x := l.table.HandOff(&l.side, h.(*lease.Hold), lockerr.ErrExpired)
	switch err := l.lossOf(x, opHandOff); {
	case err != nil:
		return "", err
	case x.Outcome == arbiter.NotHeld:
		return fail(lockerr.ErrNotHeld)
	case x.Outcome == arbiter.Kept:
		return fail(errTwice)
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
	told := err != nil
	defer func() {
		if !told { // an observer has panicked, and nobody has the ticket
			l.e.cleaner.Add(to, false, nil)
		}
	}()
	ReportUnlock(ctx, l.e.Config.Observer, x.Hold, true, l.Name(), kinds[l.kind], start, err)
	if told = true; err != nil {
		return "", err
	}
	t.Until = at + d.Milliseconds()
	return t.Text(), nil
}

// sendHandoff gives the hold on l to the ticket to, with as many tries as it takes, until ctx, the
// lease or the session ends. It returns the time of the server. After an error what either may have
// is released in the background.
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
		err = e.goneCause(l)
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

// Adopt acquires l, which was handed off with that ticket, for o unless that is nil.
func (l *Lock) Adopt(ctx context.Context, o *arbiter.Owner, t *wire.Ticket) (Held, error) {
	c := NewCall(ctx, l.e.Config.Observer, l.Name(), kinds[l.kind], opAdopt, true)
	h, err := l.adopt(ctx, o, t, &c)
	c.End(h != nil, err, l.takeBack)
	if h == nil {
		return nil, err
	}
	return h, nil
}

func (l *Lock) adopt(ctx context.Context, o *arbiter.Owner, t *wire.Ticket, c *Call) (*lease.Hold, error) {
	switch {
	case l.config.Err != nil:
		return nil, lockerr.New(opAdopt, l.Name(), l.config.Err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(opAdopt, l.Name(), ctx, nil)
	case !l.e.Begin():
		return nil, lockerr.New(opAdopt, l.Name(), lockerr.ErrClosed)
	}
	defer l.e.End()
	if l.e.Draining() {
		return nil, lockerr.New(opAdopt, l.Name(), lockerr.ErrClosed)
	}
	ctx, stop := l.config.Bounded(ctx, c)
	defer stop()
	w := l.table.Waiter(&l.side, o, l.shares(), int64(l.config.Lease))
	w.Keep = int64(l.config.Keep)
	session := l.e.lockCtx
	a := attempt{
		Lock: l, ctx: ctx, session: session, io: transport.ForCaller(ctx, session), c: c, w: w, from: t.HoldID(),
	}
	defer a.free()
	h, err := a.take(t)
	a.over = true
	return h, err
}

func (a *attempt) take(t *wire.Ticket) (*lease.Hold, error) {
	l, w, o, c := a.Lock, a.w, a.w.Owner, a.c
	if !l.table.EnterBeside(w) {
		return nil, lockerr.New(opAdopt, l.Name(), lockerr.ErrUnlockFirst, l.side.LossOf(o))
	}
	h := a.newLease()
	a.asking = h
	out, now, err := a.insist(h)
	if out == granted {
		h.Top, h.Turn = h.Token+wire.Tokens(h.Token)-1, h.Since
		hold, used := l.table.Grant(w, h, h.Token)
		a.asking = nil
		if used {
			l.e.took(h, l.config.MaxHold)
			c.Got(hold, false)
			return hold, nil
		}
		l.e.releaseLater(h) // it is lost, or another of the owner's holds is
	} else if h.Indeterminate {
		l.e.cleaner.Add(h, true, nil)
	}
	switch {
	case out == granted && l.side.MustUnlockFirst(o):
		err = lockerr.New(opAdopt, l.Name(), lockerr.ErrUnlockFirst, l.side.LossOf(o))
	case err == nil && out == again && now.Milliseconds() >= t.Until:
		err = lockerr.New(opAdopt, l.Name(), lockerr.ErrTooLate)
	case err == nil:
		err = lockerr.New(opAdopt, l.Name(), lockerr.ErrUsed)
	}
	h2, err := a.letIn(err)
	if err != nil {
		return nil, err
	}
	return h2, nil
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
