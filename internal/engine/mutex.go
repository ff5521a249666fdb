package engine

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// A Mutex is an exclusive lock that goroutines of this process pass on in FIFO order while the
// tenure lasts. Then the process queues again behind others.
type Mutex struct{ base }

// Mutex returns the lock of a name. Its first call reports a bad name or option.
func (e *Engine) Mutex(name string, cfg LockConfig) Mutex {
	return Mutex{e.newBase(wire.Plain, name, cfg)}
}

// A FairMutex is an exclusive lock acquired in FIFO order by all goroutines of all processes.
// Each call has its own place in the queue in Redis.
type FairMutex struct{ base }

// FairMutex returns the lock of a name. Its first call reports a bad name or option.
func (e *Engine) FairMutex(name string, cfg LockConfig) FairMutex {
	return FairMutex{e.newBase(wire.Fair, name, cfg)}
}

// Lock locks the exclusive side. An owner that holds it enters again without asking Redis.
func (b *base) Lock(ctx context.Context) error {
	if b.reenter(ctx) {
		return nil
	}
	_, err := b.call(ctx, "lock", true, b.lockExclusive)
	return err
}

// TryLock makes one attempt to lock the exclusive side.
func (b *base) TryLock(ctx context.Context) (bool, error) {
	return b.call(ctx, "try lock", false, b.lockExclusive)
}

// lockExclusive waits for the call's turn in this process and then, unless another goroutine
// passes the lock on, acquires it from Redis.
func (b *base) lockExclusive(ctx context.Context, o *arbiter.Owner, op string, wait bool, a *Acquired) (bool, error) {
	w := b.waiter(o)
	defer b.arb.Free(w)
	if ask, ok, err := b.turn(ctx, op, w, wait, a); !ask {
		return ok, err
	}
	place := w.Place
	w.Place = nil
	c := b.attempt(ctx, op, w, wait, a)
	for ; ; place = nil {
		l, err := c.contend(place)
		if l == nil {
			return b.letIn(w, a, err)
		}
		if b.kind == wire.Fair {
			if h := b.arb.Lookup(b.keys.Name); h != nil && h.Token < l.Token && (o == nil || h.Owner != o) {
				b.e.lose(h.Lease, lease.ErrGone) // Redis granted its lock to l
			}
		}
		h, used := b.arb.Grant(w, l, l.Token)
		if used {
			a.Hold = h
			b.e.took(l, b.config.MaxHold)
			return true, nil
		}
		b.e.releaseLater(l)
		if h != nil {
			return b.enterWith(h, a)
		}
		if !wait {
			return b.letIn(w, a, nil)
		}
		// Another goroutine has a hold with a later token. If Redis has lost its data, and its clock
		// has stepped back, the next renewal tells.
		if done, err := c.pause(timing.Jitter(50*time.Millisecond), nil); done || err != nil {
			return b.letIn(w, a, err)
		}
	}
}

// letIn ends a call that acquired nothing from Redis: because of err, or because another call
// of its owner let it in.
func (b *base) letIn(w *waiter, a *Acquired, err error) (bool, error) {
	h := b.arb.Quit(w)
	switch {
	case h == nil:
		return false, err
	case err != nil:
		b.giveBack(h)
		return false, err
	}
	return b.enterWith(h, a)
}

// enterWith ends a call that another call let in with its hold h.
func (b *base) enterWith(h *lease.Hold, a *Acquired) (bool, error) {
	if b.loseIfExpired(h) {
		b.giveBack(h)
		return false, ErrLateHold
	}
	a.Hold, a.Handoff = h, h.Passed || b.kind == wire.Read
	return true, nil
}

// Unconfirmed reports whether this process has unlocked m, and Redis has not confirmed that in time.
func (m *Mutex) Unconfirmed() bool {
	w := m.waiter(nil)
	defer m.arb.Free(w)
	x := m.arb.Blocked(w)
	return x.Held && x.Lease.Late.Load()
}

// Subscribe calls f, which must not block, whenever m is unlocked, if it hears that. It fails after Close, and
// where nothing can be heard; otherwise unsubscribe must be called.
func (m *Mutex) Subscribe(f func()) (unsubscribe func(), ok bool) {
	if !m.e.Begin() {
		return nil, false
	}
	defer m.e.End()
	l := m.e.broker.Overhear(m.keys.Channel, f)
	if l == nil {
		return nil, false
	}
	return l.Unsubscribe, true
}
