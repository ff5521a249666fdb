package relock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/wire"
)

// A Locker is a distributed lock in the shape of a [sync.Locker]: every lock type of this package,
// and what [RWMutex.RLocker] returns. It must not be copied, and is safe for concurrent use. [Do]
// is simpler where one function has the lock, and Acquire, which every lock type of this package
// has beside these methods, where a hold outlives a function: its [Hold] ends only itself.
//
// A lock value remembers what was locked through it, and Unlock ends the newest of that: goroutines
// that share the value share its holds, as those of a [sync.Mutex] do, and any of them may unlock.
// Every Lock needs its Unlock, also after a loss: each lost hold makes one Unlock return [ErrLost],
// whichever goroutine calls it, and these go first. Lock goes on meanwhile. If another hold of the
// value still lives then, the error's text says so: it needs an Unlock of its own. A caller that
// must know of its own hold uses Acquire, Do, or an owner. Readers that lock through one value
// share a hold, which counts them, unless each has a lease of its own ([RWMutex]).
//
// Under a context from [Session.NewContext], Lock and Unlock act for the owner in it, through any
// value of the same session, kind and name. An owner that holds the lock enters again without a
// round trip: Lock counts, and the last Unlock releases. Its Unlock ends what it has locked and
// nothing else. After a loss the owner gets ErrLost from Lock until it has unlocked.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It waits while
	// connections are lost and Redis fails over or restarts; other errors, such as ErrNotLock, end
	// it at once. If ctx ends, the error is ctx's error, its cause, and ErrTaken if somebody else
	// had the lock, or ErrUnavailable if Redis did not answer. After an error the lock is not held,
	// and what Redis may have granted is released. ctx bounds the call and not the hold.
	Lock(ctx context.Context) error

	// TryLock makes one attempt and reports whether the lock is held now. If another
	// has it, that is false without an error. It waits for Redis until ctx ends, some
	// 3 s at most, also for the answer to another call of the session. Of a lock with
	// [WithKeep] it waits for 250 ms more.
	TryLock(ctx context.Context) (bool, error)

	// Unlock ends one Lock; the last one releases the hold. It waits for Redis while ctx
	// lives, at least 100 ms (also if ctx has ended) and at most 2 s; then the release goes
	// on in the background. It returns nil if the hold was valid until now, whether Redis
	// has confirmed the release or not; ErrLost with its cause if it had ended before; or
	// ErrNotHeld if nothing was locked. Unlock even after a loss.
	Unlock(ctx context.Context) error

	// Done returns a channel that is closed when the hold that was locked last ends, by
	// Unlock or by loss. Before the first it is closed.
	Done() <-chan struct{}

	// Err returns nil while the hold that was locked last is held,
	// ErrLost with its cause once it is lost, and ErrNotHeld otherwise.
	Err() error
}

// A Mutex is a re-entrant mutual exclusion lock. It excludes every Mutex, FairMutex and Redisson
// RLock of the same name. All values of one session with one name are the same lock.
//
// The goroutines of a session pass the lock on in order of arrival, without a round trip, within
// the hand-off window ([WithTenure]). Then the process queues again, so that none starves; a
// [FairMutex] keeps all calls in order.
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
func (s *Session) lock(k wire.Kind, name string, c acquire.LockConfig) *acquire.Lock {
	l := new(acquire.Lock)
	l.Init(s.e.Node, k, name, c)
	return l
}
