package relock

import (
	"context"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/wire"
)

// A Locker is a distributed lock: every lock type of this package, and what [RWMutex.RLocker]
// returns. It must not be copied, and is safe for concurrent use.
//
// The context decides who holds the lock. Under one from [Session.NewContext], Lock and Unlock act
// for the owner in it, through any handle of the same session, kind and name; an owner that holds
// the lock enters again without asking Redis. Under any other the owner is the handle, which
// behaves as a [sync.Mutex] or a [sync.RWMutex] does: nobody enters twice, and any goroutine may
// unlock. Unlock ends what was last taken through the handle, also by an owner.
// Readers through one handle share one hold, which counts them.
//
// After a loss, Lock through the handle waits until somebody has unlocked, and TryLock returns
// ErrLost. [Do], an owner, or a handle of one's own neither ends another's hold nor misses its end.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It waits while
	// connections are lost and Redis fails over or restarts; other errors, such as
	// ErrNotLock, end it at once. If ctx ends, the error is ctx's error, its cause, and
	// ErrTaken if somebody else had the lock. After an error the lock is not held, and what
	// Redis may have granted is released. ctx bounds the call and not the hold.
	Lock(ctx context.Context) error

	// TryLock makes one attempt and reports whether the lock is held now. If another
	// has it, that is false without an error. It waits for Redis until ctx ends, some
	// 3 s at most.
	TryLock(ctx context.Context) (bool, error)

	// Unlock ends one Lock; the last one releases the hold. It waits for Redis while ctx
	// lives, at least 100 ms (also if ctx has ended) and at most 2 s; then the release goes
	// on in the background. It returns nil if the hold was certain until now, whether Redis
	// has confirmed the release or not; ErrLost with its cause if it had ended before; or
	// ErrNotHeld if this owner holds nothing here. Unlock even after a loss.
	Unlock(ctx context.Context) error

	// Done returns a channel that is closed when the latest hold taken through this
	// handle ends, by Unlock or by loss. Before the first it is closed.
	Done() <-chan struct{}

	// Err returns nil while the latest hold taken through this handle is held,
	// ErrLost with its cause once it is lost, and ErrNotHeld otherwise.
	Err() error
}

// A Mutex is a re-entrant mutual exclusion lock. It excludes every Mutex, FairMutex and Redisson
// RLock of the same name. All handles of one session with one name are the same lock.
//
// The goroutines of a session pass the lock on in order of arrival, without asking Redis, until the
// tenure ends ([WithTenure]). Then the process queues again, so that none starves; a [FairMutex]
// keeps all calls in order.
type Mutex struct{ named }

var _ Locker = (*Mutex)(nil)

// Mutex returns a lock of the given name. It sends nothing and cannot fail: the first call
// reports a bad name or option.
func (s *Session) Mutex(name string, opts ...LockOption) *Mutex {
	m := new(Mutex)
	m.l = s.lock(wire.Plain, name, lockConfigOf(opts))
	return m
}

// lock returns a lock of the session.
func (s *Session) lock(k wire.Kind, name string, c engine.LockConfig) *engine.Lock {
	l := new(engine.Lock)
	l.Init(s.e, k, name, c)
	return l
}
