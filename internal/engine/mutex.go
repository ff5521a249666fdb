package engine

import (
	"context"

	"github.com/relock-go/relock/internal/wire"
)

// A Mutex is an exclusive lock that goroutines of this process pass on in FIFO order while the
// tenure lasts. Then the process queues again behind others.
type Mutex struct{ base }

// Mutex returns the lock of a name. Its first call reports a bad name or option.
func (e *Engine) Mutex(name string, cfg LockConfig) Mutex {
	return Mutex{e.newBase(wire.Plain, name, cfg)}
}

// Lock locks m. An owner that holds m enters again without asking Redis.
func (m *Mutex) Lock(ctx context.Context) error {
	if m.reenter(ctx) {
		return nil
	}
	_, err := m.call(ctx, "lock", true, m.lockExclusive)
	return err
}

// TryLock makes one attempt to lock m.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.call(ctx, "try lock", false, m.lockExclusive)
}

// Unconfirmed reports whether this process has unlocked m, and Redis has not confirmed that in time.
func (m *Mutex) Unconfirmed() bool {
	w := m.waiter(nil)
	defer m.arb.Free(w)
	x := m.arb.Blocked(w)
	return x.Held && x.Lease.Late.Load()
}

// Subscribe calls f, which must not block, whenever m is unlocked. It fails after Close;
// otherwise unsubscribe must be called.
func (m *Mutex) Subscribe(f func()) (unsubscribe func(), ok bool) {
	if !m.e.Begin() {
		return nil, false
	}
	defer m.e.End()
	return m.e.broker.SubscribeFunc(m.keys.Channel, f).Unsubscribe, true
}
