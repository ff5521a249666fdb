package kit

import (
	"context"
	"errors"

	"github.com/relock-go/relock"
)

// An Acquirer is a lock as a Locker that locks by Acquire, and unlocks the Hold that it has got.
type Acquirer struct {
	*relock.Hold // that it got last, nil if there is none
	l            acquires
}

type acquires interface {
	Acquire(ctx context.Context) (*relock.Hold, error)
	TryAcquire(ctx context.Context) (*relock.Hold, error)
}

// NewAcquirer returns l, a lock of relock, as an Acquirer.
func NewAcquirer(l relock.Locker) *Acquirer { return &Acquirer{l: l.(acquires)} }

// Lock acquires the lock.
func (a *Acquirer) Lock(ctx context.Context) error {
	h, err := a.l.Acquire(ctx)
	if err == nil {
		a.Hold = h
	}
	return err
}

// TryLock tries to acquire the lock.
func (a *Acquirer) TryLock(ctx context.Context) (bool, error) {
	h, err := a.l.TryAcquire(ctx)
	if errors.Is(err, relock.ErrTaken) {
		return false, nil
	}
	if err == nil {
		a.Hold = h
	}
	return err == nil, err
}
