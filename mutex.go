package relock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/wire"
)

// A Locker is a distributed lock in the shape of a [sync.Locker]: every lock type of this package,
// and the result of [RWMutex.RLocker]. It must not be copied, and is safe for concurrent use. The
// lock types here also have Acquire, TryAcquire and FencingToken.
//
// Goroutines that share a lock value share what they Lock through it, as with a [sync.Mutex]. To
// follow your own hold, use [Do], an owner, or Acquire, whose [Hold] alone ends it. Every Lock
// needs its Unlock, even after a loss; any goroutine may call it. Unlock first ends lost holds:
// each makes one call return [ErrLost]. Then it ends the newest hold, without an owner even an
// owner's. Lost holds do not stop a Lock without an owner. Done, Err and FencingToken tell of the
// newest hold; the token stays after a loss. Readers share a counted hold, unless each has its own
// lease ([RWMutex]).
//
// Under a context from [Session.NewContext], Lock and Unlock act for its owner, through any value
// of the same session, kind and name. The owner enters again without a round trip, and its Unlock
// ends only its own Locks.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It waits while
	// connections are lost and Redis fails over or restarts; other errors, such as [ErrNotLock],
	// end it at once. If ctx ends, the error is ctx's, its cause, and [ErrTaken] if somebody else
	// had the lock, or [ErrUnavailable] if Redis did not answer. After an error the lock is not
	// held, and released if Redis had granted it.
	Lock(ctx context.Context) error

	// TryLock makes one attempt, and reports whether the lock is held: false without an error if
	// somebody else has it. It waits for Redis until ctx ends, about 3 s at most (and the timeout
	// of [WithReplicas]): then the error is [ErrUnavailable].
	TryLock(ctx context.Context) (bool, error)

	// Unlock ends one Lock; the last one releases the lock. It waits for Redis until ctx ends, but
	// at least 100 ms and at most 2 s; then the release goes on in the background. It returns nil
	// if the hold was valid until now, whether Redis has confirmed or not; [ErrLost] with its cause
	// if it had ended before; or [ErrNotHeld] if nothing was locked.
	Unlock(ctx context.Context) error

	// Done returns a channel that is closed when the newest hold ends, by Unlock or loss. Before
	// the first it is closed.
	Done() <-chan struct{}

	// Err returns nil while the newest hold is held, [ErrLost] with its cause once it is lost, and
	// else [ErrNotHeld].
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
