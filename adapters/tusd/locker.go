// Package relocktusd locks the uploads of [tusd] by locks of [relock], for several servers on one
// store. A client that resumes its upload on another server, while the first one still waits for
// data from a connection that is dead, gets it as soon as the first server has let go.
//
// [tusd]: https://github.com/tus/tusd
package relocktusd

import (
	"context"
	"errors"

	"github.com/relock-go/relock"
	"github.com/tus/tusd/v2/pkg/handler"
)

// NewLocker returns a locker for [handler.StoreComposer]'s UseLocker. An upload's lock has the name
// of its id, and these options. It sends nothing, cannot fail, is safe for concurrent use, and need
// not be closed.
//
// tusd locks an upload for each request. A lock is renewed until the request ends; that of a server
// that has died is free at the end of its lease ([relock.WithLease]).
func NewLocker(s *relock.Session, opts ...relock.LockOption) handler.Locker {
	return locker{s, opts}
}

type locker struct {
	session *relock.Session
	opts    []relock.LockOption
}

func (l locker) NewLock(id string) (handler.Lock, error) {
	return &lock{mutex: l.session.Mutex(id, l.opts...)}, nil
}

// A lock is of one request.
type lock struct {
	mutex *relock.Mutex
	hold  *relock.Hold // nil until Lock has returned
}

// Lock blocks until the lock is held, or returns [handler.ErrLockTimeout] when ctx ends or
// [relock.WithWait] is over. It calls requestUnlock once, in a goroutine of its own, when somebody
// else waits for the lock, in this process or another, or when the lock is lost, unless it was
// unlocked before. Other errors say that Redis refuses.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	hold, err := l.mutex.Acquire(ctx)
	switch {
	case err == nil:
		l.hold = hold
		go watch(hold, requestUnlock) // ends with the hold
		return nil
	case ctx.Err() != nil, errors.Is(err, relock.ErrTaken):
		return handler.ErrLockTimeout
	case errors.Is(err, relock.ErrName):
		return handler.ErrNotFound // no upload has such an id
	}
	return err
}

// watch requests the unlock of a hold that is wanted or lost.
func watch(hold *relock.Hold, requestUnlock func()) {
	select {
	case <-hold.Wanted():
	case <-hold.Done():
	}
	if !errors.Is(hold.Err(), relock.ErrNotHeld) { // it was not unlocked
		requestUnlock()
	}
}

// Unlock releases the lock. It waits for Redis for at most 2 s, and then goes on in the background.
// If the lock was lost it returns [relock.ErrLost].
func (l *lock) Unlock() error { return l.hold.Unlock(context.Background()) }
