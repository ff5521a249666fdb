package relock

import (
	"context"
	"errors"
	"sync"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/multilock"
)

// Do locks l, calls f, and unlocks l, also if f panics. It blocks as Lock does, then
// for f, then as Unlock does.
//
// The hold that Do unlocks is the one it locked, whoever else uses l. f's context is
// derived from ctx. If the lock is lost it is cancelled with cause ErrLost: f should
// then stop what needs the lock and return. Do returns f's error
// joined with that of Unlock, so it satisfies errors.Is for ErrLost if the lock was
// lost while f ran, even if f returned nil.
func Do(ctx context.Context, l Locker, f func(ctx context.Context) error) (err error) {
	checkContext(ctx)
	switch {
	case isNil(l):
		return lockerr.New("Do", "", errNilLocker)
	case f == nil:
		return lockerr.New("Do", "", errNilFunc)
	}
	as, o := ctx, arbiter.OwnerOf(ctx)
	if o == nil {
		// An owner for this call alone, of whom f knows nothing: of several holds taken
		// through l this one is watched, and ended.
		o = new(arbiter.Owner)
		as = arbiter.WithOwner(ctx, o)
	}
	if err := l.Lock(as); err != nil {
		return err
	}
	done := doneOf(l, o)
	fctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { // ends with f
		defer close(watched)
		select {
		case <-done:
			cancel(lockerr.New("Do", "", ErrLost))
		case <-fctx.Done():
		}
	}()
	defer func() {
		cancel(context.Canceled)
		<-watched
		err = errors.Join(err, l.Unlock(as))
	}()
	return f(fctx)
}

// doneOf returns the Done channel of the hold that o has of l.
func doneOf(l Locker, o *arbiter.Owner) <-chan struct{} {
	own, ok := l.(interface{ engineLock() multilock.Locker })
	if !ok {
		return l.Done()
	}
	m := own.engineLock().(engine.Member)
	m.ExpireIfDue(o)
	if h := m.HeldBy(o); h != nil {
		return h.Done()
	}
	return arbiter.Closed // lost already
}

// SyncLocker returns a [sync.Locker] for code that knows nothing of contexts, such as
// sync.Cond. Its Lock blocks until the lock is held, with no bound, and panics when
// it cannot be had: the session is closed, or Redis refuses for good. Its Unlock
// panics if the lock is not held, as sync.Mutex does; a lost lock is no misuse, and
// is told by l.Done and l.Err.
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
