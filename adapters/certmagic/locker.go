// Package relockcertmagic gives a Storage of [certmagic] the locks of [relock], so that of several processes one
// obtains a certificate, and the others find it in the storage.
package relockcertmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/relock-go/relock"
)

// A Locker has what certmagic wants of a [certmagic.Storage] beside the data: Lock, Unlock, TryLock and
// RenewLockLease. Embed it in a Storage:
//
//	type data struct{ certmagic.Storage } // the Storage that you have: its own locks are one level down, so not used
//	type storage struct {
//		*relockcertmagic.Locker
//		data
//	}
//
// Locks exclude the processes that use the same Redis, prefix and name, and the goroutines of each. A lock is
// renewed until Unlock, for however long certmagic tries to obtain a certificate; that of a process that has
// died is free at the end of its lease ([relock.WithLease]).
//
// A Locker must not be copied. It is safe for concurrent use, and need not be closed.
type Locker struct {
	session *relock.Session
	opts    []relock.LockOption

	mu    sync.Mutex       // protects the following
	names map[string]*name // that are locked here, or waited for
}

// A name is locked by one goroutine of this process at a time, from Lock to Unlock, also if the lock is lost between:
// Unlock knows a name only, and so cannot end what another goroutine has acquired since.
type name struct {
	turn  chan struct{} // full while it is locked
	users int           // who have locked it, or wait; protected by Locker.mu

	mu   sync.Mutex   // protects the following
	hold *relock.Hold // nil: it is not locked
	told bool         // RenewLockLease has told of its loss
}

var (
	_ certmagic.Locker           = (*Locker)(nil)
	_ certmagic.TryLocker        = (*Locker)(nil)
	_ certmagic.LockLeaseRenewer = (*Locker)(nil)
)

// NewLocker returns a Locker whose locks have these options. It sends nothing, and cannot fail.
func NewLocker(s *relock.Session, opts ...relock.LockOption) *Locker {
	return &Locker{session: s, opts: opts, names: make(map[string]*name)}
}

// Lock blocks until the lock is held or ctx ends. A free lock takes one round trip; a waiter gets it by a message
// when it is released.
func (l *Locker) Lock(ctx context.Context, key string) error {
	n := l.enter(key)
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		l.leave(key)
		return fmt.Errorf("relockcertmagic: %s: %w by this process: %w", key, relock.ErrTaken, ctx.Err())
	}
	return l.locked(n, key, (*relock.Mutex).Acquire, ctx)
}

// TryLock makes one attempt, and reports whether the lock is held now. It waits for Redis until ctx ends.
func (l *Locker) TryLock(ctx context.Context, key string) (bool, error) {
	n := l.enter(key)
	select {
	case n.turn <- struct{}{}:
	default:
		l.leave(key)
		return false, nil
	}
	err := l.locked(n, key, (*relock.Mutex).TryAcquire, ctx)
	if errors.Is(err, relock.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// acquire is an Acquire or TryAcquire.
type acquire = func(*relock.Mutex, context.Context) (*relock.Hold, error)

// locked acquires the lock of a name whose turn is the caller's, or gives the turn back.
func (l *Locker) locked(n *name, key string, acquire acquire, ctx context.Context) error {
	hold, err := l.acquire(key, acquire, ctx)
	if err != nil {
		l.unlocked(n, key)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold, n.told = hold, false
	return nil
}

// acquire acquires the lock for an owner of its own: certmagic calls Lock from goroutines that may share one.
func (l *Locker) acquire(key string, acquire acquire, ctx context.Context) (*relock.Hold, error) {
	return acquire(l.session.Mutex(key, l.opts...), l.session.NewContext(ctx))
}

// Unlock ends Lock or TryLock. It waits for Redis while ctx lives, 2 s at most; after that the release goes on in
// the background. If the lock was lost it returns [relock.ErrLost], which certmagic logs; if nobody here has the
// lock, [relock.ErrNotHeld].
func (l *Locker) Unlock(ctx context.Context, key string) error {
	l.mu.Lock()
	n := l.names[key]
	l.mu.Unlock()
	if n == nil {
		return fmt.Errorf("relockcertmagic: %s: %w", key, relock.ErrNotHeld)
	}
	n.mu.Lock()
	hold := n.hold
	n.hold = nil
	n.mu.Unlock()
	err := hold.Unlock(ctx) // of a nil one: ErrNotHeld
	if hold != nil {
		l.unlocked(n, key)
	}
	return err
}

// RenewLockLease returns nil if the lock is held. certmagic asks before each attempt to obtain a certificate, and
// makes none upon an error. After a loss it returns [relock.ErrLost] with the cause, once. From then on it takes
// the lock again if it can, since otherwise certmagic would go on for days without it. While the lock is held it
// looks at memory and the clock alone: leases are renewed in the background, so their length makes no difference.
func (l *Locker) RenewLockLease(ctx context.Context, key string, _ time.Duration) error {
	l.mu.Lock()
	n := l.names[key]
	l.mu.Unlock()
	if n == nil {
		return fmt.Errorf("relockcertmagic: %s: %w", key, relock.ErrNotHeld)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.hold.Err()
	if !errors.Is(err, relock.ErrLost) {
		return err
	}
	if !n.told {
		n.told = true
		return err
	}
	again, failed := l.acquire(key, (*relock.Mutex).TryAcquire, ctx)
	if failed != nil {
		return errors.Join(err, failed)
	}
	_ = n.hold.Unlock(ctx) // lost, as was told
	n.hold, n.told = again, false
	return nil
}

// enter returns the name for one more user.
func (l *Locker) enter(key string) *name {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.names[key]
	if n == nil {
		n = &name{turn: make(chan struct{}, 1)}
		l.names[key] = n
	}
	n.users++
	return n
}

// unlocked gives the turn back.
func (l *Locker) unlocked(n *name, key string) {
	<-n.turn
	l.leave(key)
}

// leave undoes enter.
func (l *Locker) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.names[key]
	if n.users--; n.users == 0 {
		delete(l.names, key)
	}
}
