package relock

import "github.com/relock-go/relock/internal/lockerr"

// The errors of this package, for [errors.Is]. What a method returns wraps one of them with the
// operation, the lock's name, and the cause if there is one.
var (
	// ErrLost: the hold ended before Unlock. The error is also [ErrExpired], [ErrGone],
	// [ErrForced] or [ErrClosed], which say why. Lock and TryLock return it to an owner that
	// has not unlocked what it lost.
	ErrLost = lockerr.ErrLost

	// ErrExpired: the lease ran out: Redis did not answer, the process or its host stood
	// still, or its fixed or longest time was over.
	ErrExpired = lockerr.ErrExpired

	// ErrGone: the hold is not in Redis any more: deleted, evicted, or lost with a failover
	// or restart.
	ErrGone = lockerr.ErrGone

	// ErrForced: somebody called ForceUnlock.
	ErrForced = lockerr.ErrForced

	// ErrNotHeld: this owner holds nothing here.
	ErrNotHeld = lockerr.ErrNotHeld

	// ErrClosed: the session is closed.
	ErrClosed = lockerr.ErrClosed

	// ErrUpgrade: Lock by an owner that holds only the read side; it would wait for itself.
	ErrUpgrade = lockerr.ErrUpgrade

	// ErrDeadlock: Lock inside a [Do] that holds the lock; it would wait for itself.
	ErrDeadlock = lockerr.ErrDeadlock

	// ErrName: the name is empty, longer than 1 KiB, or has a brace but no valid hash tag.
	ErrName = lockerr.ErrName

	// ErrUnavailable: Redis did not answer, or only with errors that pass, such as those of a failover, until the call
	// ended. So it is not known whether the lock is taken: the error is never [ErrTaken] as well.
	ErrUnavailable = lockerr.ErrUnavailable

	// ErrReplicas: fewer replicas than [WithReplicas] asks for have acknowledged in time.
	ErrReplicas = lockerr.ErrReplicas

	// ErrOption: an option's value is out of range.
	ErrOption = lockerr.ErrOption

	// ErrNotLock: the key of that name holds something that is no lock: data of an
	// application, or a lock of another library. Nothing was changed. Choose another name, or
	// a prefix ([WithPrefix]).
	ErrNotLock = lockerr.ErrNotLock

	// ErrTaken joins ctx's error when Lock ended while somebody else had the lock. Without
	// it Redis did not answer, or its error is joined.
	ErrTaken = lockerr.ErrTaken
)
