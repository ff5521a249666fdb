package lockerr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
)

// ErrUnlockFirst: a hold was lost and not unlocked since. Its owner gets no new one inside the
// section that the loss has broken, nor does an anonymous call through its handle.
var ErrUnlockFirst = fmt.Errorf("%w: unlock the lost hold before locking again", ErrLost)

// What was not made by its constructor.
var (
	ErrZero      = errors.New("relock: the lock is nil or a zero value; make it with a method of Session or a New function")
	ErrNoSession = errors.New("relock: the Session is nil or a zero value; make it with NewSession")
)

// Error is the failure of one operation on one lock.
type Error struct {
	op, name string
	errs     []error
}

// Error joins the operation, the name, and the texts of all errors.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(prefix + e.op)
	if e.name != "" {
		b.WriteString(" " + Quote(e.name))
	}
	separator := ": "
	for _, err := range e.errs {
		b.WriteString(separator + text(err))
		separator = "; "
		if _, ok := err.(*taken); ok {
			separator = ": "
		}
	}
	return b.String()
}

// Unwrap returns the errors that New kept.
func (e *Error) Unwrap() []error { return e.errs }

// New returns an *Error with those of errs that are neither nil nor wrapped by one before.
func New(op, name string, errs ...error) error {
	e := &Error{op: op, name: name}
	for _, err := range errs {
		if err == nil {
			continue
		}
		if !slices.ContainsFunc(e.errs, func(k error) bool { return errors.Is(k, err) }) {
			e.errs = append(e.errs, err)
		}
	}
	return e
}

// Ended returns the failure of an operation whose ctx has ended, with the context's error and
// cause, and the last error of Redis if there was one.
func Ended(op, name string, ctx context.Context, last error) error {
	return New(op, name, ctx.Err(), context.Cause(ctx), last)
}

// Taken returns the failure of a call whose ctx has ended, and that has waited so long for a lock
// that somebody else has.
func Taken(op, name string, ctx context.Context, waited time.Duration) error {
	return New(op, name, &taken{waited}, ctx.Err(), context.Cause(ctx))
}

// taken is an ErrTaken that says how long the call has waited.
type taken struct{ waited time.Duration }

func (t *taken) Error() string { return prefix + "taken by another holder for " + Span(t.waited) }

func (t *taken) Is(target error) bool { return target == ErrTaken }

// Span formats a duration for people.
func Span(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.String()
}

// Wrap returns the failure of an operation with err, nil if err is nil.
func Wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return New(op, name, err)
}
