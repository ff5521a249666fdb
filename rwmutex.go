package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/wire"
)

// An RWMutex is a re-entrant reader/writer mutual exclusion lock: held by any number of readers, or
// by one writer. It excludes every RWMutex and Redisson RReadWriteLock of the same name. As a
// [Locker] it is its write side; [RWMutex.RLocker] is its read side.
//
// Readers and writers of all processes take turns: a waiting writer stops new readers, and when a
// writer is done, all readers that wait go before the next one; a reader whose session's reader before it
// gives up may have to queue again. An owner that reads may read again
// whatever waits. A writer may also read, and keeps reading when it unlocks the write side first; to
// write while reading is refused with [ErrUpgrade].
//
// The readers of a session share one hold in Redis, which more of them join without asking for one tenure
// after Redis last said that no writer waits. A reader whose lease has another length than the session's,
// or is bounded ([WithFixedLease], [WithMaxHold]), has a hold of its own.
type RWMutex struct {
	_    noCopy
	l    engine.Lock
	read engine.Lock
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns a read-write lock of the given name. It sends nothing and cannot fail; see
// [Session.Mutex].
func (s *Session) RWMutex(name string, opts ...LockOption) *RWMutex {
	rw := new(RWMutex)
	rw.l.Init(s.e, wire.Write, name, unkeptConfigOf(opts))
	rw.read.Init(s.e, wire.Read, name, unkeptConfigOf(opts))
	return rw
}

// Name returns the name of the lock.
func (rw *RWMutex) Name() string { return rw.l.Name() }

// Lock locks rw for writing; see [Locker].
func (rw *RWMutex) Lock(ctx context.Context) error { return rw.l.Lock(ctx) }

// TryLock tries to lock rw for writing without waiting; see [Locker].
func (rw *RWMutex) TryLock(ctx context.Context) (bool, error) { return rw.l.TryLock(ctx) }

// RLock locks rw for reading; see [Locker].
func (rw *RWMutex) RLock(ctx context.Context) error { return rw.read.Lock(ctx) }

// TryRLock tries to lock rw for reading without waiting; it is false while a writer waits.
func (rw *RWMutex) TryRLock(ctx context.Context) (bool, error) {
	return rw.read.TryLock(ctx)
}

// Unlock ends one Lock of rw; see [Locker].
func (rw *RWMutex) Unlock(ctx context.Context) error { return rw.l.Unlock(ctx) }

// RUnlock ends one RLock of rw; see [Locker].
func (rw *RWMutex) RUnlock(ctx context.Context) error { return rw.read.Unlock(ctx) }

// Done tells when the latest write hold ends; see [Locker].
func (rw *RWMutex) Done() <-chan struct{} { return rw.l.Done() }

// Err tells of the latest write hold; see [Locker].
func (rw *RWMutex) Err() error { return rw.l.Err() }

// FencingToken returns the token of the latest write hold; see [Mutex.FencingToken].
func (rw *RWMutex) FencingToken() int64 { return rw.l.FencingToken() }

// Wanted tells that somebody else waits to read or write while the latest write hold is held; see
// [Mutex.Wanted]. Readers are not told of writers that wait.
func (rw *RWMutex) Wanted() <-chan struct{} { return rw.l.Wanted() }

// Deadline returns that of the latest write hold; see [Mutex.Deadline].
func (rw *RWMutex) Deadline() (time.Time, bool) { return rw.l.Deadline() }

func (rw *RWMutex) member() engine.Member { return &rw.l }

// RLocker returns the read side of rw as a Locker: its Lock and Unlock are RLock and RUnlock.
func (rw *RWMutex) RLocker() Locker { return (*rlocker)(rw) }

// rlocker is the read side of an RWMutex.
type rlocker RWMutex

func (r *rlocker) Lock(ctx context.Context) error            { return r.read.Lock(ctx) }
func (r *rlocker) TryLock(ctx context.Context) (bool, error) { return r.read.TryLock(ctx) }
func (r *rlocker) Unlock(ctx context.Context) error          { return r.read.Unlock(ctx) }
func (r *rlocker) Done() <-chan struct{}                     { return r.read.Done() }
func (r *rlocker) Err() error                                { return r.read.Err() }
func (r *rlocker) member() engine.Member                     { return &r.read }
