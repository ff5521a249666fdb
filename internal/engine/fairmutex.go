package engine

import (
	"context"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/wire"
)

// A FairMutex is an exclusive lock acquired in FIFO order by all goroutines of all processes.
// Each call has its own place in the queue in Redis.
type FairMutex struct{ base }

// FairMutex returns the lock of a name. Its first call reports a bad name or option.
func (e *Engine) FairMutex(name string, cfg LockConfig) FairMutex {
	return FairMutex{e.newBase(wire.Fair, name, cfg)}
}

// Lock locks m. An owner that holds m enters again without asking Redis.
func (m *FairMutex) Lock(ctx context.Context) error {
	if m.reenter(ctx) {
		return nil
	}
	_, err := m.call(ctx, "lock", true, m.lock)
	return err
}

// TryLock makes one attempt to lock m. It fails while others queue.
func (m *FairMutex) TryLock(ctx context.Context) (bool, error) {
	return m.call(ctx, "try lock", false, m.lock)
}

func (m *FairMutex) lock(ctx context.Context, o *arbiter.Owner, op string, wait bool, a *Acquired) (bool, error) {
	w := m.waiter(o)
	defer m.arb.Free(w)
	if ask, ok, err := m.turn(ctx, op, w, wait, a); !ask {
		return ok, err
	}
	c := m.attempt(ctx, op, w, wait, a)
	for {
		l, err := c.contend(nil)
		if l == nil {
			return m.letIn(w, a, err)
		}
		if h := m.arb.Lookup(m.keys.Name); h != nil && h.Token < l.Token && (o == nil || h.Owner != o) {
			m.e.lose(h.Lease, lease.ErrGone) // Redis granted its lock to l
		}
		h, used := m.arb.Grant(w, l, l.Token)
		if used {
			a.Hold = h
			m.e.took(l, m.config.MaxHold)
			return true, nil
		}
		m.e.releaseLater(l)
		if h != nil {
			return m.enterWith(h, a)
		}
	}
}

// letIn ends a call that acquired nothing from Redis: because of err, or because another call
// of its owner let it in.
func (m *FairMutex) letIn(w *waiter, a *Acquired, err error) (bool, error) {
	h := m.arb.Quit(w)
	switch {
	case h == nil:
		return false, err
	case err != nil:
		m.giveBack(h)
		return false, err
	}
	return m.enterWith(h, a)
}

// enterWith ends a call that another call of its owner let in with its hold h.
func (m *FairMutex) enterWith(h *lease.Hold, a *Acquired) (bool, error) {
	if m.loseIfExpired(h) {
		m.giveBack(h)
		return false, ErrLateHold
	}
	a.Hold = h
	return true, nil
}
