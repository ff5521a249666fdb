package relock

import (
	"errors"
	"reflect"

	"github.com/relock-go/relock/internal/lockerr"
)

// The errors of this package, for [errors.Is]. What a method returns wraps one of them with the
// operation, the lock's name, and the cause if there is one.
var (
	// ErrLost: the hold ended before Unlock. The error is also [ErrExpired], [ErrGone],
	// [ErrForced] or [ErrClosed], which say why. An owner that has not unlocked a lost hold
	// gets it from Lock and Acquire of that lock as well.
	ErrLost = lockerr.ErrLost

	// ErrExpired: the lease ran out: Redis did not answer, the process or its host stood
	// still, or its fixed or longest time was over.
	ErrExpired = lockerr.ErrExpired

	// ErrGone: the hold is not in Redis any more: deleted, evicted, or lost with a failover
	// or restart.
	ErrGone = lockerr.ErrGone

	// ErrForced: somebody called ForceUnlock.
	ErrForced = lockerr.ErrForced

	// ErrNotHeld: there is nothing to unlock: the hold was unlocked or handed off before, or
	// nothing is locked through this lock value, or by this owner.
	ErrNotHeld = lockerr.ErrNotHeld

	// ErrClosed: the session is closed.
	ErrClosed = lockerr.ErrClosed

	// ErrUpgrade: Lock by an owner that holds only the read side; it would wait for itself.
	ErrUpgrade = lockerr.ErrUpgrade

	// ErrDeadlock: Lock or Acquire inside a [Do] that holds the lock, without its owner; it
	// would wait for itself. It is found for a lock of the same session.
	ErrDeadlock = lockerr.ErrDeadlock

	// ErrName: the name is empty, longer than 1 KiB, or has a brace but no valid hash tag.
	ErrName = lockerr.ErrName

	// ErrUnavailable: Redis did not answer, or only with errors that pass, such as those of a
	// failover, until the call ended. So it is not known whether the lock is taken: the error is
	// never [ErrTaken] as well.
	ErrUnavailable = lockerr.ErrUnavailable

	// ErrReplicas: fewer replicas than [WithReplicas] asks for have acknowledged in time.
	ErrReplicas = lockerr.ErrReplicas

	// ErrOption: an option's value is out of range.
	ErrOption = lockerr.ErrOption

	// ErrNotLock: the key of that name holds something that is not a lock: data of an
	// application, or a lock of another library. Nothing was changed. Choose another name, or
	// a prefix ([WithPrefix]).
	ErrNotLock = lockerr.ErrNotLock

	// ErrTaken: somebody else has the lock. TryAcquire returns it, and it joins ctx's error when
	// Lock or Acquire ended while they waited for another holder. If that is in this process, the
	// error's text says so, and by which kind of call: the caller may have waited for itself.
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
