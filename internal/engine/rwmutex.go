package engine

import (
	"context"

	"github.com/relock-go/relock/internal/wire"
)

// An RWMutex is a reader/writer lock. Itself it is the write side, which excludes all others.
type RWMutex struct {
	base
	read Reader
}

// RWMutex returns the lock of a name. Its first call reports a bad name or option.
func (e *Engine) RWMutex(name string, cfg LockConfig) RWMutex {
	return RWMutex{base: e.newBase(wire.Write, name, cfg), read: Reader{e.newBase(wire.Read, name, cfg)}}
}

// Reader returns the read side.
func (rw *RWMutex) Reader() *Reader { return &rw.read }

// Lock locks rw for writing. It refuses an owner that only reads with ErrUpgrade.
func (rw *RWMutex) Lock(ctx context.Context) error {
	_, err := rw.call(ctx, "lock", true, rw.lockExclusive)
	return err
}

// TryLock makes one attempt to lock rw for writing.
func (rw *RWMutex) TryLock(ctx context.Context) (bool, error) {
	return rw.call(ctx, "try lock", false, rw.lockExclusive)
}
