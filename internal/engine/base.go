package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// base is what every handle of a lock consists of; an RWMutex has one for each side. Its zero value
// is not usable, and says so.
type base struct {
	e      *Engine
	kind   wire.Kind
	arb    *table // of kind
	handle handle
	keys   wire.Keys
	config LockConfig // its Lease is set, and at most MaxHold; its Err is also that of the name
}

func (e *Engine) newBase(k wire.Kind, name string, cfg LockConfig) base {
	if e == nil {
		return base{keys: wire.Keys{Name: name}, config: LockConfig{Err: lockerr.ErrNoSession}}
	}
	b := base{e: e, kind: k, arb: e.arbiters[k], keys: wire.NewKeys(k, e.Config.Prefix+name), config: cfg}
	if err := wire.CheckName(e.Config.Prefix, name); err != nil {
		b.config.Err = err
	}
	if cfg.Lease == 0 {
		b.config.Lease = e.Config.Lease
	}
	if cfg.MaxHold > 0 {
		b.config.Lease = min(b.config.Lease, cfg.MaxHold.Truncate(time.Millisecond))
	}
	b.handle = b.arb.Handle(b.keys.Name)
	return b
}

// Name returns the name of the lock that the user gave: its key without the prefix.
func (b *base) Name() string {
	if b.e == nil {
		return b.keys.Name
	}
	return b.e.nameOf(b.keys.Name)
}

// nameOf returns the name of the lock with that key.
func (e *Engine) nameOf(key string) string { return strings.TrimPrefix(key, e.Config.Prefix) }

// keyOf returns the key of the lock with that name.
func (e *Engine) keyOf(name string) string { return e.Config.Prefix + name }

// Engine returns the engine of the lock, nil for a zero value.
func (b *base) Engine() *Engine { return b.e }

// Invalid returns what is wrong with the lock's name or options, nil if nothing is.
func (b *base) Invalid() error { return b.config.Err }

// Length returns the length of the lock's leases.
func (b *base) Length() time.Duration { return b.config.Lease }

// shares reports whether the hold may be another goroutine's as well: a writer's one after the
// other, a reader's at the same time. Readers share one lease, of the engine's length.
func (b *base) shares() bool {
	return b.config.Passable() && b.kind != wire.Fair && (b.kind != wire.Read || b.config.Lease == b.e.Config.Lease)
}

// leaseMS returns the length of its leases as it is sent.
func (b *base) leaseMS() string {
	if b.config.Lease == b.e.Config.Lease {
		return b.e.leaseMS
	}
	return wire.Millis(b.config.Lease)
}

func (b *base) side() arbiter.Side {
	if b.kind == wire.Read {
		return arbiter.Read
	}
	return arbiter.Write
}

// waiter returns the arbiter's waiter for a call by o.
func (b *base) waiter(o *arbiter.Owner) *waiter {
	w := b.arb.Waiter(&b.handle, o, b.shares())
	w.Class = int64(b.config.Lease)
	return w
}

// reenter locks a write hold of ctx's owner once more without asking Redis, if there is one.
func (b *base) reenter(ctx context.Context) bool {
	o := arbiter.OwnerOf(ctx)
	return o != nil && ctx.Err() == nil && b.handle.Valid() && b.config.Err == nil && b.arb.Reenter(&b.handle, o)
}

// usable returns the error of every operation on a zero or invalid lock.
func (b *base) usable(op string) error {
	switch {
	case b.config.Err != nil:
		return lockerr.New(op, b.Name(), b.config.Err)
	case b.e == nil:
		return lockerr.New(op, "", lockerr.ErrZero)
	}
	return nil
}

// lockFunc is how a lock type acquires. It runs again while it fails with ErrLateHold.
type lockFunc func(ctx context.Context, o *arbiter.Owner, op string, wait bool, a *Acquired) (bool, error)

// call is the frame of every Lock and TryLock: it checks, counts, times and reports the call.
func (b *base) call(ctx context.Context, op string, wait bool, lock lockFunc) (ok bool, err error) {
	if b.e == nil {
		return false, b.usable(op)
	}
	o := arbiter.OwnerOf(ctx)
	a := b.newCall(o, wait)
	switch {
	case b.config.Err != nil:
		err = b.usable(op)
	case ctx.Err() != nil:
		err = lockerr.Ended(op, b.Name(), ctx, nil)
	case !b.e.Begin():
		err = lockerr.New(op, b.Name(), lockerr.ErrClosed)
	default:
		defer b.e.End()
		err = ErrLateHold
		if wait && b.WaitsForItself(ctx, o) {
			err = lockerr.New(op, b.Name(), lockerr.ErrDeadlock)
		}
		for err == ErrLateHold {
			ok, err = lock(ctx, o, op, wait, &a)
		}
	}
	if b.e.audience != nil {
		a.End(ctx, b.e.Clock.Now(), ok, err)
	}
	return ok, err
}

// newCall returns a call of o that starts now.
func (b *base) newCall(o *arbiter.Owner, wait bool) Acquired {
	a := Acquired{audience: &b.e.audience, waits: wait, owned: o != nil}
	if b.e.audience != nil {
		a.Name, a.Kind = b.Name(), kinds[b.kind]
		a.begin(b.e)
	}
	return a
}

// ErrLateHold: a call was passed a hold that had expired by the time the call woke up. The call
// has given it back and must start over.
var ErrLateHold = errors.New("the hold expired before the call that received it woke up")

// turn waits for the call's turn in this process: until w must ask Redis, or its call is done, ok
// if a goroutine of this process has let it in.
func (b *base) turn(ctx context.Context, op string, w *waiter, wait bool, a *Acquired) (ask, ok bool, err error) {
	switch b.arb.Enter(w, b.side(), wait) {
	case arbiter.Ask:
		return true, false, nil
	case arbiter.Entered:
		return false, true, nil
	case arbiter.Busy:
		return false, false, nil
	case arbiter.Upgrade:
		return false, false, lockerr.New(op, b.Name(), lockerr.ErrUpgrade)
	case arbiter.UnlockFirst:
		return false, false, lockerr.New(op, b.Name(), lockerr.ErrUnlockFirst)
	case arbiter.Queued:
		a.Contend(ctx)
		if err := b.wait(ctx, op, w, a); err != nil {
			return false, false, err
		}
	}
	h, ask := b.arb.Answer(w)
	if h == nil {
		return ask, false, nil
	}
	ok, err = b.enterWith(h, a)
	return false, ok, err
}

// wait blocks until the arbiter answers w. If ctx ends or the engine closes first, it takes w
// out of the queue and returns why.
//
// Grant and cancel may race: the arbiter may answer w just before w leaves the queue. quit
// decides under the arbiter's mutex. It returns a hold granted until then, which is given back,
// and afterwards the arbiter cannot find w any more.
func (b *base) wait(ctx context.Context, op string, w *waiter, a *Acquired) (err error) {
	a.begin(b.e)
	select {
	case <-w.C:
		return nil
	case <-ctx.Done():
		err = b.overdue(ctx, op, w, a)
	case <-b.e.closing:
		err = lockerr.New(op, b.Name(), lockerr.ErrClosed)
	}
	b.quit(w)
	return err
}

// overdue returns the error of a queued call whose ctx has ended. The lock is taken if this process
// has it, or if that was the last answer to the call that asks Redis.
func (b *base) overdue(ctx context.Context, op string, w *waiter, a *Acquired) error {
	if b.handle.MustUnlockFirst(w.Owner) {
		return lockerr.Ended(op, b.Name(), ctx, lockerr.ErrUnlockFirst)
	}
	x := b.arb.Blocked(w)
	if x.Refused || b.heldHere(w) {
		return lockerr.Taken(op, b.Name(), ctx, time.Duration(b.e.Clock.Now()-a.start))
	}
	return lockerr.Ended(op, b.Name(), ctx, x.Err)
}

// heldHere reports whether this process has the lock that w waits for. One whose release Redis has
// not confirmed in time does not count: Redis keeps w waiting.
func (b *base) heldHere(w *waiter) bool {
	x := b.arb.Blocked(w)
	return x.Held && !x.Lease.Late.Load()
}

// quit ends the call of w, and gives back what it was granted.
func (b *base) quit(w *waiter) {
	if h := b.arb.Quit(w); h != nil {
		b.giveBack(h)
	}
	b.leave(w)
}

// leave gives up the place in the queue that a release has taken for w.
func (b *base) leave(w *waiter) {
	if w.Place != nil {
		b.e.cleaner.Add(w.Place, false, nil)
		w.Place = nil
	}
}
