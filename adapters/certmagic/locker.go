// Package relockcertmagic gives a Storage of [certmagic] the locks of [relock], so that of several
// processes one obtains a certificate, and the others find it in the storage.
package relockcertmagic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/relock-go/relock"
)

// A Locker has what certmagic wants of a [certmagic.Storage] beside the data: Lock, Unlock, TryLock
// and RenewLockLease. Embed it in a Storage:
//
//	type data struct{ certmagic.Storage } // the Storage that you have: its own locks are one level down, so not used
//	type storage struct {
//		*relockcertmagic.Locker
//		data
//	}
//
// Locks exclude the processes that use the same Redis, prefix and name, and the goroutines of each.
// A lock is renewed until Unlock, for however long certmagic tries to obtain a certificate; that of
// a process that has died is free at the end of its lease ([relock.WithLease]).
//
// A Locker must not be copied. It is safe for concurrent use, and need not be closed.
type Locker struct {
	session *relock.Session
	opts    []relock.LockOption

	mu    sync.Mutex       // protects the following
	names map[string]*name // that are locked here, or waited for
}

// A name is locked by one goroutine of this process at a time, from Lock to Unlock, also if the
// lock is lost between: Unlock knows a name only, and so cannot end what another goroutine has
// acquired since.
type name struct {
	turn  chan struct{} // full while it is locked
	users int           // who have locked it, or wait; protected by Locker.mu
	hold  atomic.Pointer[relock.Hold]
	told  atomic.Bool // RenewLockLease has told of its loss
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

// Lock blocks until the lock is held or ctx ends. A free lock takes one round trip; a waiter gets
// it by a message when it is released.
func (l *Locker) Lock(ctx context.Context, key string) error {
	n := l.enter(key)
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		l.leave(key)
		return fmt.Errorf("relockcertmagic: %s: %w by this process: %w", key, relock.ErrTaken, ctx.Err())
	}
	hold, err := l.mutex(key).Acquire(l.session.NewContext(ctx))
	return l.locked(n, key, hold, err)
}

// TryLock makes one attempt, and reports whether the lock is held now. It waits for Redis until ctx
// ends.
func (l *Locker) TryLock(ctx context.Context, key string) (bool, error) {
	n := l.enter(key)
	select {
	case n.turn <- struct{}{}:
	default:
		l.leave(key)
		return false, nil
	}
	hold, err := l.mutex(key).TryAcquire(l.session.NewContext(ctx))
	if err = l.locked(n, key, hold, err); errors.Is(err, relock.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// mutex returns the lock of a name. It is acquired for an owner of its own: goroutines of certmagic
// may share one.
func (l *Locker) mutex(key string) *relock.Mutex { return l.session.Mutex(key, l.opts...) }

// locked follows up an acquisition under a name whose turn is the caller's.
func (l *Locker) locked(n *name, key string, hold *relock.Hold, err error) error {
	if err != nil {
		l.unlocked(n, key)
		return err
	}
	n.told.Store(false)
	n.hold.Store(hold)
	return nil
}

// Unlock ends Lock or TryLock. It waits for Redis while ctx lives, 2 s at most; after that the
// release goes on in the background. If the lock was lost it returns [relock.ErrLost], which
// certmagic logs; if nobody here has the lock, [relock.ErrNotHeld].
func (l *Locker) Unlock(ctx context.Context, key string) error {
	n := l.lookup(key)
	hold := n.hold.Swap(nil)
	if hold == nil {
		return fmt.Errorf("relockcertmagic: %s: %w", key, relock.ErrNotHeld)
	}
	defer l.unlocked(n, key)
	return hold.Unlock(ctx)
}

// RenewLockLease returns nil if the lock is held. certmagic asks before each attempt to obtain a
// certificate, and makes none upon an error. After a loss it returns [relock.ErrLost] with the
// cause, once. From then on it takes the lock again if it can, since otherwise certmagic would go
// on for days without it. While the lock is held it looks at memory and the clock alone: leases are
// renewed in the background, so their length makes no difference.
func (l *Locker) RenewLockLease(ctx context.Context, key string, _ time.Duration) error {
	n := l.lookup(key)
	hold := n.hold.Load()
	err := hold.Err() // of a nil one: ErrNotHeld
	if !errors.Is(err, relock.ErrLost) || !n.told.Swap(true) {
		return err
	}
	again, failed := l.mutex(key).TryAcquire(l.session.NewContext(ctx))
	if failed != nil {
		return errors.Join(err, failed)
	}
	n.told.Store(false)
	if !n.hold.CompareAndSwap(hold, again) { // an Unlock was faster
		return errors.Join(relock.ErrNotHeld, again.Unlock(ctx))
	}
	_ = hold.Unlock(ctx) // lost, as was told
	return nil
}

// lookup returns the name, an unused one if nothing has locked it.
func (l *Locker) lookup(key string) *name {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.names[key], new(name))
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
