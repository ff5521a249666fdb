package engine

import "github.com/relock-go/relock/internal/wire"

// An RWMutex is a reader/writer lock. Itself it is the write side, which excludes all others, and
// refuses an owner that only reads with ErrUpgrade.
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
