package kit

import (
	"context"
	"errors"

	"github.com/relock-go/relock"
)

// A HoldLocker is a lock as a Locker that locks by Acquire, and unlocks the Hold that it has got.
type HoldLocker struct {
	*relock.Hold // that it got last, nil if there is none
	l            Acquirer
}

// NewHoldLocker returns l, a lock of relock, as a HoldLocker.
func NewHoldLocker(l relock.Locker) *HoldLocker { return &HoldLocker{l: l.(Acquirer)} }

// Lock acquires the lock.
func (a *HoldLocker) Lock(ctx context.Context) error {
	h, err := a.l.Acquire(ctx)
	if err == nil {
		a.Hold = h
	}
	return err
}

// TryLock tries to acquire the lock.
func (a *HoldLocker) TryLock(ctx context.Context) (bool, error) {
	h, err := a.l.TryAcquire(ctx)
	if errors.Is(err, relock.ErrTaken) {
		return false, nil
	}
	if err == nil {
		a.Hold = h
	}
	return err == nil, err
}
