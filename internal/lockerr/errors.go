// Package lockerr holds the errors of the public API: its sentinels, and the failure of one operation.
//
// Every text is one line that starts with "relock: " once, however deep errors are wrapped, and errors.Is
// finds the sentinel, the error of the context, its cause, and the error of Redis. The package starts no
// goroutines and imports no package of the module.
package lockerr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const prefix = "relock: "

// The sentinels of the public API, for [errors.Is]; package relock says what each means. A method's
// error wraps one of them with the operation, the lock's name, and the cause if there is one.
var (
	ErrLost     = errors.New("relock: lock lost")
	ErrNotHeld  = errors.New("relock: lock not held")
	ErrClosed   = errors.New("relock: session closed")
	ErrUpgrade  = errors.New("relock: a read hold cannot be upgraded; unlock the read side first")
	ErrDeadlock = errors.New("relock: deadlock: a Do around this call holds the lock, and would wait for itself")
	ErrName     = errors.New("relock: bad lock name")
	ErrOption   = errors.New("relock: option out of range")
	ErrNotLock  = errors.New("relock: not a lock")
	ErrTaken    = errors.New("relock: lock taken by another holder")
	ErrReplicas = errors.New("relock: too few replicas")

	ErrUnavailable = errors.New("relock: Redis is not available")
)

// Why a hold was lost. Each is ErrLost as well; ErrEnded, ErrMaxHold and ErrTooLate are ErrExpired,
// ErrMember and ErrUsed are ErrGone, and ErrLostAtClose is ErrClosed.
var (
	ErrExpired     error = &loss{"its lease ran out before it could be renewed", nil}
	ErrEnded       error = &loss{"its lease ran out", ErrExpired} // it was not to be renewed
	ErrMaxHold     error = &loss{"it was held for as long as WithMaxHold allows", ErrExpired}
	ErrGone        error = &loss{"it is not in Redis any more", nil}
	ErrForced      error = &loss{"it was forced open", nil}
	ErrMember      error = &loss{"a member of the group was lost", ErrGone} // which does not tell why
	ErrLostAtClose error = &loss{"the session was closed", ErrClosed}

	// Of a hold that was handed off.
	ErrTooLate error = &loss{"the time of its ticket is over", ErrExpired}
	ErrUsed    error = &loss{"the ticket was used before or is of another Redis, or the lock was forced open or is gone", ErrGone}
)

type loss struct {
	why  string
	kind error // that it is besides ErrLost; may be nil
}

func (l *loss) Error() string        { return ErrLost.Error() + ": " + l.why }
func (l *loss) Is(target error) bool { return target == ErrLost || target == l.kind }

// CauseOf returns why a hold was lost, if err says so, else other.
func CauseOf(err, other error) error {
	if cause := (*loss)(nil); errors.As(err, &cause) {
		return cause
	}
	return other
}

// ErrUnlockFirst: a hold was lost and not unlocked since. Its owner gets no new one inside the
// section that the loss has broken, nor does a call without an owner through its handle.
var ErrUnlockFirst = fmt.Errorf("%w: unlock the lost hold before locking again", ErrLost)

// Error is the failure of one operation on one lock or, without an operation, several errors.
type Error struct {
	op, name string
	errs     []error
}

// Error joins the operation, the name, and the texts of all errors.
func (e *Error) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	}
	head := prefix
	switch {
	case e.name != "":
		head += e.op + " " + Quote(e.name) + ": "
	case e.op != "":
		head += e.op + ": "
	}
	return head + strings.ReplaceAll(strings.Join(texts, "; "), prefix, "")
}

// Unwrap returns the errors that New kept.
func (e *Error) Unwrap() []error { return e.errs }

// New returns an *Error with those of errs that are neither nil nor wrapped by one before, nil if there
// are none.
func New(op, name string, errs ...error) error {
	var kept []error
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(kept, func(k error) bool { return errors.Is(k, err) }) {
			kept = append(kept, err)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return &Error{op, name, kept}
}

// Ended returns the failure of an operation whose ctx has ended, with the context's error and
// cause, and the last error of Redis if there was one.
func Ended(op, name string, ctx context.Context, last error) error {
	return New(op, name, ctx.Err(), context.Cause(ctx), last)
}

// Unavailable returns the failure of an operation whose ctx has ended while Redis did not answer, or with an error that
// passes: the last one, if there was one.
func Unavailable(op, name string, ctx context.Context, last error) error {
	return New(op, name, ErrUnavailable, ctx.Err(), context.Cause(ctx), last)
}

// Taken returns the failure of a call whose ctx has ended, and that has waited so long for a lock
// that somebody else has: of this process if here is not nil, which [Here] has returned.
func Taken(op, name string, ctx context.Context, waited time.Duration, here error) error {
	waited = waited.Round(10 * time.Millisecond)
	err := fmt.Errorf("%w for %v", ErrTaken, waited)
	if here != nil {
		err = fmt.Errorf("%w; waited for %v", here, waited)
	}
	return New(op, name, err, ctx.Err(), context.Cause(ctx))
}

// Here returns the ErrTaken of a lock that this process has, since a call that long ago.
func Here(call string, ago time.Duration) error { return &here{call, ago} }

type here struct {
	call string
	ago  time.Duration
}

func (h *here) Error() string {
	ago := h.ago.Round(10 * time.Millisecond)
	return fmt.Sprintf("relock: lock taken by this process itself, by %s, %v ago", h.call, ago)
}

func (h *here) Is(target error) bool { return target == ErrTaken }

// Join is errors.Join with a text of one line. A single error is returned as it is.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &Error{errs: errs}
}

// Bare returns err without the operation and name that New gave it.
func Bare(err error) error {
	if e, ok := err.(*Error); ok {
		return Join(e.errs...)
	}
	return err
}

// Quote quotes the name of a lock. Of one that is longer than names may be it shows the beginning.
func Quote(name string) string {
	const most = 1024
	if len(name) > most {
		return strconv.Quote(name[:most]) + "..."
	}
	return strconv.Quote(name)
}
