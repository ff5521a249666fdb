package relock

import (
	"context"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/wire"
)

// An RWMutex is a re-entrant reader/writer lock. It excludes every RWMutex and Redisson
// RReadWriteLock of the same name. As a [Locker] it is its write side; [RWMutex.RLocker] is its
// read side.
//
// Readers and writers of all processes take turns. A waiting writer stops new readers, and after a
// writer all waiting readers go before the next one; if one gives up, the readers behind it in its
// session may queue again. An owner that reads may read again, even while a writer waits, but gets
// [ErrUpgrade] if it locks the write side. An owner that writes may also read, and keeps reading if
// it unlocks the write side first.
//
// A session's readers share one lease in Redis. More join it without a round trip during the
// hand-off window ([WithTenure]) after Redis last said that no writer waits. A reader has its own
// lease if its length is not the session's, or is bounded ([WithFixedLease], [WithMaxHold],
// [WithMinHold]). Such readers of one value do not share a hold: RUnlock ends the one that was
// locked first.
type RWMutex struct {
	named // the write side
	read  handle
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns the read-write lock of that name; see [Session.Mutex].
func (s *Session) RWMutex(name string, opts ...LockOption) *RWMutex {
	rw, c := new(RWMutex), unkeptConfigOf(opts)
	rw.l = s.lock(wire.Write, name, c)
	c.Note = ""
	rw.read.l = s.lock(wire.Read, name, c)
	rw.read.crowd = new(local.Crowd)
	return rw
}

// RLock locks rw for reading; see [Locker].
func (rw *RWMutex) RLock(ctx context.Context) error { return rw.read.Lock(ctx) }

// TryRLock makes one attempt to lock rw for reading: false while a writer waits.
func (rw *RWMutex) TryRLock(ctx context.Context) (bool, error) { return rw.read.TryLock(ctx) }

// RUnlock ends one RLock of rw; see [Locker].
func (rw *RWMutex) RUnlock(ctx context.Context) error { return rw.read.Unlock(ctx) }

// RAcquire acquires rw for reading; see [RWMutex.Acquire].
func (rw *RWMutex) RAcquire(ctx context.Context) (*Hold, error) { return rw.read.Acquire(ctx) }

// TryRAcquire acquires rw for reading; see [RWMutex.TryAcquire].
func (rw *RWMutex) TryRAcquire(ctx context.Context) (*Hold, error) { return rw.read.TryAcquire(ctx) }

// RLocker returns the read side of rw as a Locker: its Lock and Unlock are RLock and RUnlock. It
// also has Acquire and TryAcquire.
func (rw *RWMutex) RLocker() Locker { return &rw.read }
