package relock

import (
	"errors"
	"reflect"

	"github.com/relock-go/relock/internal/lockerr"
)

// The errors of this package, for [errors.Is]. A method's error wraps one of them with the
// operation, the lock's name, and the cause if there is one.
var (
	// ErrLost: the hold ended before Unlock. The error also matches its reason: [ErrExpired],
	// [ErrGone], [ErrForced] or [ErrClosed]. An owner also gets it when it locks that lock again
	// (an [RWMutex] to read or to write) before it has unlocked.
	ErrLost = lockerr.ErrLost

	// ErrExpired: the lease ran out: Redis did not answer, the process or host stood still, or
	// [WithFixedLease] or [WithMaxHold] was over.
	ErrExpired = lockerr.ErrExpired

	// ErrGone: the hold is no longer in Redis: deleted, evicted, or lost in a failover or restart.
	ErrGone = lockerr.ErrGone

	// ErrForced: somebody called [Session.ForceUnlock].
	ErrForced = lockerr.ErrForced

	// ErrNotHeld: the hold was unlocked or handed off, or this lock value or owner has locked
	// nothing.
	ErrNotHeld = lockerr.ErrNotHeld

	// ErrClosed: the session is closed.
	ErrClosed = lockerr.ErrClosed

	// ErrUpgrade: an owner that holds only the read side called Lock: it would wait for itself.
	ErrUpgrade = lockerr.ErrUpgrade

	// ErrDeadlock: Lock or Acquire inside a [Do] or [Hold.Context] that holds the lock, without its
	// owner, would wait for itself. Through another session it waits.
	ErrDeadlock = lockerr.ErrDeadlock

	// ErrName: the name is empty, longer than 1 KiB, or has a brace but no valid hash tag.
	ErrName = lockerr.ErrName

	// ErrUnavailable: until the call ended, Redis gave no answer, or only passing errors, such as
	// those of a failover. The lock may be free or taken: the error never matches [ErrTaken] too.
	ErrUnavailable = lockerr.ErrUnavailable

	// ErrReplicas: too few replicas acknowledged in time ([WithReplicas]).
	ErrReplicas = lockerr.ErrReplicas

	// ErrOption: an option or argument is out of range, or does not fit the lock.
	ErrOption = lockerr.ErrOption

	// ErrNotLock: the key of that name holds application data, or a lock of another kind or
	// library. Nothing was changed.
	ErrNotLock = lockerr.ErrNotLock

	// ErrTaken: somebody else has the lock. TryAcquire returns it; Lock and Acquire join it with
	// ctx's error if they end while they wait. If the holder is in this process, the text says so:
	// the caller may have waited for itself.
	ErrTaken = lockerr.ErrTaken
)

// noCopy makes go vet report copies of the types that contain it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

var (
	errNilLocker = errors.New("the Locker is nil")
	errNilFunc   = errors.New("the function is nil")
)

// isNil reports whether an interface is nil, or holds a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
