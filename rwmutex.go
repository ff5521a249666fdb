package relock

import (
	"context"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/wire"
)

// An RWMutex is a re-entrant reader/writer mutual exclusion lock: held by any number of readers, or
// by one writer. It excludes every RWMutex and Redisson RReadWriteLock of the same name. As a
// [Locker] it is its write side; [RWMutex.RLocker] is its read side.
//
// Readers and writers of all processes take turns: a waiting writer stops new readers, and when a
// writer is done, all readers that wait go before the next one; a reader whose session's reader
// before it gives up may have to queue again. An owner that reads may read again, even while a
// writer waits. A writer may also read, and keeps reading when it unlocks the write side first; to
// write while reading is refused with [ErrUpgrade].
//
// The readers of a session share one lease in Redis. More readers join it without a round trip for
// as long as the hand-off window ([WithTenure]) after Redis last said that no writer waits. A
// reader whose lease has another length than the session's, or is bounded ([WithFixedLease],
// [WithMaxHold]), has a lease of its own. Such readers of one value do not share a hold: RUnlock ends
// the one that was locked first.
type RWMutex struct {
	named // the write side
	read  handle
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns a read-write lock of the given name. It sends nothing and cannot fail; see
// [Session.Mutex].
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

// TryRLock tries to lock rw for reading without waiting; it is false while a writer waits.
func (rw *RWMutex) TryRLock(ctx context.Context) (bool, error) { return rw.read.TryLock(ctx) }

// RUnlock ends one RLock of rw; see [Locker].
func (rw *RWMutex) RUnlock(ctx context.Context) error { return rw.read.Unlock(ctx) }

// RAcquire acquires rw for reading; see [RWMutex.Acquire].
func (rw *RWMutex) RAcquire(ctx context.Context) (*Hold, error) { return rw.read.Acquire(ctx) }

// TryRAcquire tries to acquire rw for reading without waiting; see [RWMutex.TryAcquire].
func (rw *RWMutex) TryRAcquire(ctx context.Context) (*Hold, error) { return rw.read.TryAcquire(ctx) }

// RLocker returns the read side of rw as a Locker: its Lock and Unlock are RLock and RUnlock. It
// has Acquire and TryAcquire as well.
func (rw *RWMutex) RLocker() Locker { return &rw.read }
