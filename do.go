package relock

import (
	"context"
	"errors"
	"sync"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockerr"
)

// Do locks l as Lock does, calls f, and unlocks l, even if f panics. The hold is this call's alone,
// whatever other goroutines do with l. (A Locker of another type, even one that embeds a lock of
// this package, is locked by its own Lock and Unlock.)
//
// f's context is derived from ctx, and carries the hold ([HoldOf], [Token]). A loss cancels it,
// with [ErrLost] and the reason as its cause: then f should return. The end of ctx ends Lock and
// f's context; Unlock still gets 100 ms.
//
// Do returns f's error joined with Unlock's: ErrLost if the lock was lost while f ran, even if f
// returned nil or its context's error. If f has ended the hold itself, Do returns f's error.
//
// Under f's context, which ends with Do, Lock of the same lock returns [ErrDeadlock] instead of
// waiting for Do, unless the same owner ([Session.NewContext]) enters again, both only read, or a
// [Semaphore] has more permits than the Dos around.
//
// Do starts no goroutine if ctx is from package context, except for a Locker of another type.
func Do(ctx context.Context, l Locker, f func(ctx context.Context) error) error {
	_, err := do(ctx, "Do", l, f, true)
	return err
}

// TryDo is [Do] with TryLock instead of Lock. ran reports whether f was called.
func TryDo(ctx context.Context, l Locker, f func(ctx context.Context) error) (ran bool, err error) {
	return do(ctx, "TryDo", l, f, false)
}

// DoValue is [Do] for a function that returns a value. v is f's, even beside an error; zero if f
// was not called.
func DoValue[T any](ctx context.Context, l Locker, f func(ctx context.Context) (T, error)) (v T, err error) {
	if f == nil {
		return v, lockerr.New("DoValue", "", errNilFunc)
	}
	_, err = do(ctx, "DoValue", l, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	}, true)
	return v, err
}

func do(ctx context.Context, op string, l Locker, f func(context.Context) error, wait bool) (ran bool, err error) {
	switch {
	case isNil(l):
		return false, lockerr.New(op, "", errNilLocker)
	case f == nil:
		return false, lockerr.New(op, "", errNilFunc)
	}
	own := handleOf(l)
	if own == nil {
		return doForeign(ctx, l, f, wait)
	}
	h, err := own.acquire(ctx, wait)
	if h == nil {
		return false, err
	}
	fctx, w := h.work(ctx)
	defer func() {
		w.end(context.Canceled)
		if h.end("unlock") != nil {
			return // f has ended it
		}
		end := own.l.Release(ctx, h.held, byHold)
		h.ended(end)
		err = joinEnd(ctx, fctx, err, end)
	}()
	return true, f(fctx)
}

// joinEnd returns what Do returns after f has returned err, and Unlock end. f's context ended with
// the loss of the hold, or after f.
func joinEnd(ctx, fctx context.Context, err, end error) error {
	if !errors.Is(end, ErrLost) {
		return lockerr.Join(end, err)
	}
	loss, lost := context.Cause(fctx).(*lockerr.Error)
	switch {
	case lost && err == error(loss), err == context.Canceled && ctx.Err() == nil:
		err = nil // it adds nothing to the error of Unlock
	case lost && errors.Is(err, loss):
		return lockerr.New("", "", err) // it has that error
	}
	return lockerr.Join(end, err)
}

// doForeign is do for a Locker of another package. A goroutine watches its hold, and ends with f.
func doForeign(ctx context.Context, l Locker, f func(context.Context) error, wait bool) (ran bool, err error) {
	if wait {
		err = l.Lock(ctx)
		ran = err == nil
	} else {
		ran, err = l.TryLock(ctx)
	}
	if !ran || err != nil {
		return false, err
	}
	fctx, cancel := context.WithCancelCause(&acquire.Scope{Context: ctx})
	done, watched := l.Done(), make(chan struct{})
	var lost error
	go func() { // ends with f
		defer close(watched)
		select {
		case <-done:
			lost = lockerr.New("Do", "", lockerr.CauseOf(l.Err(), ErrLost))
			cancel(lost)
		case <-fctx.Done():
		}
	}()
	defer func() {
		cancel(context.Canceled)
		<-watched
		end := l.Unlock(ctx)
		if lost != nil && !errors.Is(end, ErrLost) {
			end = lockerr.Join(lost, end)
		}
		err = joinEnd(ctx, fctx, err, end)
	}()
	return true, f(fctx)
}

// SyncLocker returns a [sync.Locker] for code without contexts, such as sync.Cond. Its Lock blocks
// without bound, and panics if the session is closed or Redis refuses for good. Its Unlock panics
// if the lock is not held. l.Done and l.Err report a loss.
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
