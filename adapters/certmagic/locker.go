// Package relockcertmagic gives a Storage of [certmagic] the locks of [relock], so that of several processes one
// obtains a certificate, and the others find it in the storage.
package relockcertmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

	mu    sync.Mutex       // protects following fields
	locks map[string]*lock // that are held here, or waited for
}

// A lock is one handle for all who use its name in this process. So Unlock, which knows a name and not whose
// it is, can end nobody's hold but that of the one who got in: after a loss, the next one waits until the one
// who has lost it has unlocked.
type lock struct {
	*relock.Mutex
	users int                          // who hold it, have lost it, or wait for it; protected by Locker.mu
	told  atomic.Bool                  // RenewLockLease has told of the loss
	again atomic.Pointer[relock.Mutex] // by which it was taken again after that
}

// latest returns the handle by which the lock was taken last.
func (k *lock) latest() *relock.Mutex {
	if again := k.again.Load(); again != nil {
		return again
	}
	return k.Mutex
}

var (
	_ certmagic.Locker           = (*Locker)(nil)
	_ certmagic.TryLocker        = (*Locker)(nil)
	_ certmagic.LockLeaseRenewer = (*Locker)(nil)
)

// NewLocker returns a Locker whose locks have these options. It sends nothing, and cannot fail.
func NewLocker(s *relock.Session, opts ...relock.LockOption) *Locker {
	return &Locker{session: s, opts: opts, locks: make(map[string]*lock)}
}

// Lock blocks until the lock is held or ctx ends. A free lock takes one round trip; a waiter gets it by a message
// when it is released.
func (l *Locker) Lock(ctx context.Context, name string) error {
	err := l.enter(name).Lock(unowned(ctx))
	if err != nil {
		l.leave(name)
	}
	return err
}

// TryLock makes one attempt, and reports whether the lock is held now. It waits for Redis until ctx ends.
func (l *Locker) TryLock(ctx context.Context, name string) (bool, error) {
	ok, err := l.enter(name).TryLock(unowned(ctx))
	if !ok {
		l.leave(name)
	}
	return ok, err
}

// Unlock ends Lock or TryLock. It waits for Redis while ctx lives, 2 s at most; after that the release goes on in
// the background. If the lock was lost it returns [relock.ErrLost], which certmagic logs; if nobody here has the
// lock, [relock.ErrNotHeld].
func (l *Locker) Unlock(ctx context.Context, name string) error {
	lock := l.lookup(name)
	if lock == nil {
		return fmt.Errorf("relockcertmagic: %s: %w", name, relock.ErrNotHeld)
	}
	ctx, held := unowned(ctx), lock.latest()
	lock.told.Store(false)
	lock.again.Store(nil)
	err := held.Unlock(ctx)
	if held != lock.Mutex {
		_ = lock.Unlock(ctx) // lost, as RenewLockLease has told; now the next one gets in
	}
	if !errors.Is(err, relock.ErrNotHeld) {
		l.leave(name)
	}
	return err
}

// RenewLockLease returns nil if the lock is held. certmagic asks before each attempt to obtain a certificate, and
// makes none upon an error. After a loss it returns [relock.ErrLost] with the cause, once. From then on it takes
// the lock again if it can, since otherwise certmagic would go on for days without it. While the lock is held it
// looks at memory and the clock alone: leases are renewed in the background, so their length makes no difference.
func (l *Locker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	lock := l.lookup(name)
	if lock == nil {
		return fmt.Errorf("relockcertmagic: %s: %w", name, relock.ErrNotHeld)
	}
	held := lock.latest()
	err := held.Err()
	if !errors.Is(err, relock.ErrLost) || !lock.told.Swap(true) {
		return err
	}
	again := l.session.Mutex(name, l.opts...) // through the other one this process gets in after Unlock only
	if ok, failed := again.TryLock(unowned(ctx)); !ok {
		return errors.Join(err, failed)
	}
	if held != lock.Mutex {
		_ = held.Unlock(unowned(ctx)) // nobody waits for it
	}
	lock.again.Store(again)
	lock.told.Store(false)
	return nil
}

// lookup returns the lock of a name that somebody uses, else nil.
func (l *Locker) lookup(name string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locks[name]
}

// enter returns the lock of a name for one more user.
func (l *Locker) enter(name string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	use := l.locks[name]
	if use == nil {
		use = &lock{Mutex: l.session.Mutex(name, l.opts...)}
		l.locks[name] = use
	}
	use.users++
	return use
}

// leave undoes enter.
func (l *Locker) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	use := l.locks[name]
	if use.users--; use.users == 0 {
		delete(l.locks, name)
	}
}

// unowned returns ctx without an owner of [relock.Session.NewContext], whose goroutines would not exclude each
// other: certmagic calls Lock from any of them.
func unowned(ctx context.Context) context.Context {
	if _, owned := relock.FromContext(ctx); owned {
		return valueless{ctx}
	}
	return ctx
}

type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }
