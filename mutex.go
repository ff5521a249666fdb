package relock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/wire"
)

// A Locker is a distributed lock in the shape of a [sync.Locker]: every lock type of this package,
// and the result of [RWMutex.RLocker]. It must not be copied, and is safe for concurrent use. [Do]
// is simpler if one function has the lock. If the hold outlives a function, use Acquire, which
// every lock type here also has: its [Hold] ends only itself.
//
// Goroutines that share a lock value share its holds, as with a [sync.Mutex]: any of them may
// unlock, and Unlock ends the newest hold. Every Lock needs its Unlock. Lost holds go first: each
// makes one Unlock return [ErrLost], whichever goroutine calls it; Lock works meanwhile. If another
// hold of the value then lives, the error's text says that it needs its own Unlock. To follow your
// own hold, use Acquire, Do or an owner. Readers that lock through one value share a counted hold,
// unless each has its own lease ([RWMutex]).
//
// Under a context from [Session.NewContext], Lock and Unlock act for its owner, through any value
// of the same session, kind and name. The owner enters again without a round trip, and its Unlock
// ends only its own Locks.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It waits while
	// connections are lost and Redis fails over or restarts; other errors, such as [ErrNotLock],
	// end it at once. If ctx ends, the error is ctx's error, its cause, and [ErrTaken] if somebody
	// else had the lock, or [ErrUnavailable] if Redis did not answer. After an error the lock is
	// not held, and released if Redis had granted it. ctx bounds the call, not the hold.
	Lock(ctx context.Context) error

	// TryLock makes one attempt, and reports whether the lock is held now: false without an error
	// if somebody else has it. It waits for Redis, even for the answer to another call of the
	// session, until ctx ends, about 3 s at most; with [WithKeep], 250 ms more.
	TryLock(ctx context.Context) (bool, error)

	// Unlock ends one Lock; the last one releases the hold. It waits for Redis until ctx ends, but
	// at least 100 ms (even if ctx has ended) and at most 2 s; then the release goes on in the
	// background. It returns nil if the hold was valid until now, whether Redis has confirmed or
	// not; [ErrLost] with its cause if it had ended before; or [ErrNotHeld] if nothing was locked.
	// Unlock even after a loss.
	Unlock(ctx context.Context) error

	// Done returns a channel that is closed when the hold that was locked last ends, by Unlock or
	// loss. Before the first it is closed.
	Done() <-chan struct{}

	// Err returns nil while the hold that was locked last is held, [ErrLost] with its cause once it
	// is lost, and [ErrNotHeld] otherwise.
	Err() error
}

// A Mutex is a re-entrant mutual exclusion lock. It excludes every Mutex, [FairMutex] and Redisson
// RLock of the same name. All values of one session and name are the same lock.
//
// A session's goroutines pass the lock on in order of arrival within the hand-off window
// ([WithTenure]); then the process queues again, so that none starves.
type Mutex struct{ named }

var _ Locker = (*Mutex)(nil)

// Mutex returns the lock of that name. It sends nothing and cannot fail: the first call on the lock
// reports a bad name or option.
func (s *Session) Mutex(name string, opts ...LockOption) *Mutex {
	m := new(Mutex)
	m.l = s.lock(wire.Plain, name, lockConfigOf(opts))
	return m
}

// lock returns a lock of the session.
func (s *Session) lock(k wire.Kind, name string, c acquire.LockConfig) *acquire.Lock {
	l := new(acquire.Lock)
	l.Init(s.e.Node, k, name, c)
	return l
}
