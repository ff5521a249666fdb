package relock

import "github.com/relock-go/relock/internal/lockerr"

// The errors of this package, for [errors.Is]. What a method returns wraps one of
// them with the operation and the lock's name, and with the cause where there is
// one. Every error's text starts with "relock: ".
var (
	// ErrLost: the hold ended before Unlock. Its lease ran out, somebody forced
	// the lock open, its key was deleted, or the session was closed. Lock and TryLock
	// return it to an owner that has not unlocked what it lost.
	ErrLost = lockerr.ErrLost

	// ErrNotHeld: this owner holds nothing here.
	ErrNotHeld = lockerr.ErrNotHeld

	// ErrClosed: the session is closed.
	ErrClosed = lockerr.ErrClosed

	// ErrUpgrade: Lock by an owner that holds only the read side. Waiting would
	// never end, because the wait would be for the owner itself.
	ErrUpgrade = lockerr.ErrUpgrade

	// ErrName: the lock's name is empty, longer than 1 KiB, or has a brace but no
	// valid hash tag.
	ErrName = lockerr.ErrName

	// ErrOption: an option's value is out of range.
	ErrOption = lockerr.ErrOption
)
