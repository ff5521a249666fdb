package relock

import (
	"context"
	"errors"
	"sync"
)

// Do locks l, calls f, and unlocks l, also if f panics. It blocks as Lock does, then
// for f, then as Unlock does.
//
// f's context is derived from ctx. If the lock is lost it is cancelled with cause
// ErrLost: f should then stop what needs the lock and return. Do returns f's error
// joined with that of Unlock, so it satisfies errors.Is for ErrLost if the lock was
// lost while f ran, even if f returned nil.
func Do(ctx context.Context, l Locker, f func(ctx context.Context) error) (err error) {
	if err := l.Lock(ctx); err != nil {
		return err
	}
	done := l.Done()
	if r, ok := l.(*rlocker); ok {
		done = r.doneOf(ctx) // another reader may have come through l meanwhile
	}
	fctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { // ends with f
		defer close(watched)
		select {
		case <-done:
			cancel(failed("Do", "", ErrLost))
		case <-fctx.Done():
		}
	}()
	defer func() {
		cancel(context.Canceled)
		<-watched
		err = errors.Join(err, l.Unlock(ctx))
	}()
	return f(fctx)
}

// SyncLocker returns a [sync.Locker] for code that knows nothing of contexts, such as
// sync.Cond. Its Lock blocks until the lock is held, with no bound, and panics when
// it cannot be had: the session is closed, or Redis refuses for good. Its Unlock
// panics if the lock is not held, as sync.Mutex does; a lost lock is no misuse, and
// is told by l.Done and l.Err.
func SyncLocker(l Locker) sync.Locker { return syncLocker{l} }

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
