package relock

import "github.com/relock-go/relock/internal/lockerr"

// The errors of this package, for [errors.Is]. What a method returns wraps one of them with the
// operation, the lock's name, and the cause if there is one.
var (
	// ErrLost: the hold ended before Unlock. Its lease ran out, somebody forced the lock
	// open, its key was deleted, or the session was closed. Lock and TryLock return it to
	// an owner that has not unlocked what it lost.
	ErrLost = lockerr.ErrLost

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

	// ErrOption: an option's value is out of range.
	ErrOption = lockerr.ErrOption

	// ErrNotLock: the key of that name holds something that is no lock: data of an
	// application, or a lock of another library. Nothing was changed. Choose another name,
	// or a prefix for all names of the session ([WithPrefix]).
	ErrNotLock = lockerr.ErrNotLock

	// ErrTaken joins ctx's error when Lock ended while somebody else had the lock. Without
	// it Redis did not answer, or returned an error, which is joined then.
	ErrTaken = lockerr.ErrTaken
)
