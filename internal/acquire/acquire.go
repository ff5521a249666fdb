package acquire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// How every lock is acquired: when its turn has come in this process (turn.go), Redis is asked
// (request.go), and if the lock is taken, the call waits (wait.go).

var spareCalls = sync.Pool{New: func() any { return new(Call) }}

// Take acquires l: see [Member]. An owner that holds it enters again without asking Redis.
func (l *Lock) Take(ctx context.Context, o *local.Owner, crowd *local.Crowd, wait, due bool) (Held, error) {
	if o != nil && l.config.Err == nil && ctx.Err() == nil {
		if h := l.reenter(o, due); h != nil {
			return h, nil
		}
	}
	c := spareCalls.Get().(*Call)
	*c = NewCall(ctx, l.n.Config.Observer, l.Name(), kinds[l.kind], ops[l.kind][0], wait)
	c.Due, c.crowd = due, crowd
	h, err := l.Acquire(ctx, o, c)
	c.End(h != nil, err, l.takeBack)
	*c = Call{}
	spareCalls.Put(c)
	return h, err
}

// reenter enters the hold of o again, nil if it has none that is valid.
func (l *Lock) reenter(o *local.Owner, due bool) *local.Hold {
	h := o.Reenter(l.owned, l.kind.Joins(), due)
	if h != nil && !h.Lease.Valid(l.n.Clock.Now()) {
		l.giveBack(h, due)
		return nil
	}
	return h
}

// takeBack ends one call that h was granted to, which its caller does not know.
func (l *Lock) takeBack(h Held, due bool) {
	l.n.Calls.Track()
	defer l.n.Calls.End()
	l.giveBack(h.(*local.Hold), due)
}

// tryMost is how long a TryLock with WithKeep waits for a lock that it finds taken: its keeper, if
// there is one, hears that it is wanted, and releases it.
const tryMost = 250 * time.Millisecond

// Acquire locks l for o, unless that is nil, on behalf of a call, which waits or makes one attempt.
func (l *Lock) Acquire(ctx context.Context, o *local.Owner, c *Call) (Held, error) {
	acquire := l.acquire
	if !c.Wait && c.whole == nil && l.config.Keep > 0 {
		acquire = l.acquireSoon
	}
	h, err := acquire(ctx, o, c)
	if h == nil {
		return nil, err
	}
	return h, nil
}

// acquireSoon is acquire for a TryLock that waits, but only briefly.
func (l *Lock) acquireSoon(ctx context.Context, o *local.Owner, c *Call) (*local.Hold, error) {
	brief, stop := context.WithTimeout(ctx, l.tryBound())
	defer stop()
	c.Wait, c.found = true, func() { time.AfterFunc(tryMost, stop) }
	h, err := l.acquire(brief, o, c)
	if errors.Is(err, lockerr.ErrTaken) && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return nil, nil
	}
	return h, err
}

// tryBound returns how long a TryLock waits for Redis.
func (l *Lock) tryBound() time.Duration { return transport.Patience + l.n.Config.AckWait }

func (l *Lock) acquire(ctx context.Context, o *local.Owner, c *Call) (*local.Hold, error) {
	switch {
	case l.config.Err != nil:
		return nil, l.fails(c, l.config.Err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(l.op(c), l.Name(), ctx, nil)
	case !l.n.Calls.Begin():
		return nil, l.fails(c, lockerr.ErrClosed)
	}
	defer l.n.Calls.End()
	a := &acquisition{Lock: l, ctx: ctx, session: l.sessionFor(o), start: l.n.Clock.Now(), c: c, apart: l.table == nil}
	a.facts.taken = c.taken
	if a.session.Err() != nil {
		return nil, l.fails(c, lockerr.ErrClosed)
	}
	var stop context.CancelFunc
	a.ctx, stop = l.config.Bounded(ctx, c)
	defer stop()
	if c.Wait && l.waitsForItself(ctx, o) {
		if c.Try {
			return nil, nil
		}
		return nil, l.fails(c, lockerr.ErrDeadlock)
	}
	a.call = l.n.pool.NewCall()
	defer l.n.pool.Free(a.call)
	a.call.Name, a.call.Owner, a.call.For, a.call.Reads = l.keys.Name, o, a, l.kind.Joins()
	a.call.Crowd, a.call.Try, a.call.Due, a.call.Length = c.crowd, !c.Wait, c.Due, l.config.Takes(l.config.Lease)
	if c.whole == nil { // a group gives back what it does not hold
		a.call.Keep = int64(l.config.Keep)
	}
	if around := l.readAround(ctx); around != nil && c.Wait {
		if o == nil && around.Owner == nil && (l.table == nil || around.Alone) && around.Enter(c.Due) {
			c.Got(around, true) // a lease of its own would have to wait for writers
			return around, nil
		}
		a.call.Inside = true
	}
	a.turn = Turn{Asker: a, Key: l.owned, Call: a.call, C: c}
	return a.turn.Take()
}

// sessionFor returns what ends a call by o with the session: Shutdown, or for an owner that has the
// lock, on either side, only its end.
func (l *Lock) sessionFor(o *local.Owner) *transport.Context {
	if o != nil && (o.Held(l.owned, true) != nil || o.Held(l.owned, false) != nil) {
		return l.n.Closing
	}
	return l.n.Draining
}

// Table returns where the call waits for its turn. A reader whose owner writes asks Redis for
// itself, which knows that.
func (a *acquisition) Table() *local.Table {
	a.apart = a.table == nil || a.kind.Joins() && a.call.Owner != nil && a.call.Owner.Held(a.owned, false) != nil
	if a.apart {
		return nil
	}
	return a.table.Table
}

// Ask asks Redis for a call whose turn it is; see [Asker].
func (a *acquisition) Ask(step local.Step) (h *local.Hold, next local.Step, err error) {
	if a.join = nil; step.Lease != nil {
		a.join = lease.Of(step.Lease)
	}
	l, err := a.run()
	switch now := a.n.Clock.Now(); {
	case l == nil:
		return nil, local.Step{Do: local.Refuse}, err
	case a.apart:
		h = local.NewHold(&l.Lease, a.call.Owner, a.kind.Joins(), a.c.Due, now)
		l.Of.(*alone).Store(h)
	case a.kind.Joins():
		return a.joinRead(l)
	default:
		h = a.table.Granted(a.call, &l.Lease, now)
	}
	a.lease = nil
	a.n.took(l, a.config.MaxHold) // after the hold exists, so that a loss finds it
	a.c.Got(h, false)
	return h, next, nil
}

// Follow does what a step says of a lease.
func (a *acquisition) Follow(step local.Step) {
	switch l := step.Lease; step.Do {
	case local.Lose:
		a.n.Lost(lease.Of(l), lockerr.ErrExpired)
	case local.Release:
		a.n.drop(step)
	case local.Enter: // another call of the process had the lease before
		h := step.Hold
		if step.Kept {
			a.n.Keeper.Forget(lease.Of(h.Lease), h.Since)
			a.n.Watchdog.Resume(lease.Of(h.Lease), h.Since)
		}
		if !h.Reads {
			a.n.Watchdog.Note(lease.Of(h.Lease), a.config.Note, h.Since)
		}
	}
}

// The following make an acquisition an [Asker].

func (a *acquisition) Refresh(h *local.Hold) bool { return a.refresh(h, a.n.Clock.Now()) }
func (a *acquisition) GiveBack(h *local.Hold)     { a.giveBack(h, a.c.Due) }
func (a *acquisition) Fails(errs ...error) error  { return a.fails(a.c, errs...) }
func (a *acquisition) Behind(before any) {
	if a.behind = nil; before != nil {
		a.behind = before.(Knower).Known()
	}
}
func (a *acquisition) Now() int64 { return a.n.Clock.Now() }

// took gives a lease to the watchdog. Messages of it may have overtaken the reply that grants it.
func (n *Node) took(l *lease.Lease, maxHold time.Duration) {
	n.Watchdog.Add(l, maxHold)
	if l.Forced.Load() {
		n.Watchdog.RenewNow(l)
	}
	if l.Wanted.Load() {
		n.Recall(l)
	}
}
