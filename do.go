package relock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
)

// Do locks l, calls f, and unlocks l, also if f panics. The hold is that of this call, whoever else
// uses l.
//
// f's context is derived from ctx, and knows the hold: see [Token], [Slot], [Deadline] and [Wanted]. If the lock is
// lost, that context is cancelled with [ErrLost] and why as its cause: f should stop what needs the
// lock, and return. The end of ctx ends Lock and f's context, and leaves Unlock 100 ms; [WithWait]
// bounds Lock alone. Do returns f's error joined with that of Unlock: ErrLost if the lock was lost
// while f ran, even if f returned nil or its context's error.
//
// Lock under f's context of a key that this Do holds would wait for Do itself. So it returns
// [ErrDeadlock], unless its owner is the same ([Session.NewContext]), who enters again, or both only
// read. Through another session it waits. Work that is to have the lock after Do must not derive its
// context from f's.
func Do(ctx context.Context, l Locker, f func(ctx context.Context) error) error {
	if err := checkDo("Do", l, f); err != nil {
		return err
	}
	as, o := ownerFor(ctx)
	if err := l.Lock(as); err != nil {
		return err
	}
	return runHeld(ctx, as, o, l, f)
}

// TryDo is Do with TryLock instead of Lock. ran tells whether f was called.
func TryDo(ctx context.Context, l Locker, f func(ctx context.Context) error) (ran bool, err error) {
	if err := checkDo("TryDo", l, f); err != nil {
		return false, err
	}
	as, o := ownerFor(ctx)
	if ok, err := l.TryLock(as); !ok {
		return false, err
	}
	return true, runHeld(ctx, as, o, l, f)
}

// checkDo reports whether l or f are nil.
func checkDo(op string, l Locker, f func(context.Context) error) error {
	switch {
	case isNil(l):
		return lockerr.New(op, "", errNilLocker)
	case f == nil:
		return lockerr.New(op, "", errNilFunc)
	}
	return nil
}

// ownerFor returns the owner in ctx, or one for this call alone, of whom f knows nothing: of
// several holds taken through a handle, Do watches and ends that one.
func ownerFor(ctx context.Context) (as context.Context, o *arbiter.Owner) {
	if o = arbiter.OwnerOf(ctx); o != nil {
		return ctx, o
	}
	o = new(arbiter.Owner)
	return arbiter.WithOwner(ctx, o), o
}

// runHeld calls f under the hold of l that o has just taken, and ends that.
func runHeld(ctx, as context.Context, o *arbiter.Owner, l Locker, f func(context.Context) error) (err error) {
	member := memberOf(l)
	scope := engine.NewScope(ctx, member, o)
	ended := scope.Ended()
	if member == nil {
		ended = l.Done()
	}
	fctx, cancel := context.WithCancelCause(scope)
	watched := make(chan struct{})
	go func() { // ends with f
		defer close(watched)
		select {
		case <-ended:
			cause := scope.Cause()
			if member == nil {
				cause = lockerr.CauseOf(l.Err(), cause)
			}
			scope.Lost = lockerr.New("Do", nameOf(member), cause)
			cancel(scope.Lost)
		case <-fctx.Done():
		}
	}()
	defer func() {
		scope.Leave()
		cancel(context.Canceled)
		<-watched
		lost := scope.Lost
		if lost != nil && (err == lost || err == context.Canceled && ctx.Err() == nil) {
			err = nil // as the error of Unlock says
		}
		end := l.Unlock(as)
		switch {
		case lost != nil && !errors.Is(end, ErrLost):
			err = lockerr.Join(lost, end, err)
		case lost != nil && errors.Is(err, lost): // it says what end does
			err = lockerr.New("", "", err)
		default:
			err = lockerr.Join(end, err)
		}
	}()
	return f(fctx)
}

// memberOf returns the lock inside l, nil if l is of a type that this module does not know.
func memberOf(l Locker) engine.Member {
	if own, ok := l.(ourLocker); ok {
		return own.member()
	}
	return nil
}

// ourLocker is a lock of this module.
type ourLocker interface{ member() engine.Member }

func nameOf(m engine.Member) string {
	if m == nil {
		return ""
	}
	return m.Name()
}

// Token returns the fencing token of the hold that the innermost Do around ctx took. It is 0 outside of
// Do, and for locks without tokens: the read side of an [RWMutex], a [Group], and a Locker of another
// package.
func Token(ctx context.Context) int64 {
	return engine.ScopeOf(ctx).Token()
}

// Slot returns the slot of the permit that the innermost Do around ctx took; see [Semaphore]. It is -1 outside
// of Do, and for locks of other types.
func Slot(ctx context.Context) int {
	return engine.ScopeOf(ctx).Slot()
}

// Deadline returns the time until which the hold that the innermost Do around ctx took is certain
// as of now; renewals move it. For a Group it is the earliest of its members'. It reports false
// outside of Do, after the hold, and for a Locker of another package.
func Deadline(ctx context.Context) (time.Time, bool) {
	return engine.ScopeOf(ctx).HoldDeadline()
}

// Wanted returns [Mutex.Wanted] for the hold that the innermost Do around ctx took. It is nil outside
// of Do, and for locks that do not tell: the read side of an [RWMutex], a [Group], a [Redlock], and a
// Locker of another package.
func Wanted(ctx context.Context) <-chan struct{} { return engine.ScopeOf(ctx).Wanted() }

// SyncLocker returns a [sync.Locker] for code that knows nothing of contexts, such as sync.Cond. Its
// Lock blocks without bound, and panics when l cannot be locked: the session is closed, or Redis
// refuses for good. Its Unlock panics if the lock is not held; l.Done and l.Err report a loss.
func SyncLocker(l Locker) sync.Locker {
	if isNil(l) {
		panic(lockerr.New("SyncLocker", "", errNilLocker).Error())
	}
	return syncLocker{l}
}

type syncLocker struct{ l Locker }

func (s syncLocker) Lock() {
	if err := s.l.Lock(context.Background()); err != nil {
		panic(err.Error())
	}
}

func (s syncLocker) Unlock() {
	if err := s.l.Unlock(context.Background()); err != nil && !errors.Is(err, ErrLost) {
		panic(err.Error())
	}
}
