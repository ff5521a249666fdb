package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/multilock"
)

// An RWMutex is a re-entrant reader/writer mutual exclusion lock: held by any number
// of readers, or by one writer. It shares its key, and so excludes, with every RWMutex
// and Redisson RReadWriteLock of the same name. A lock of another kind of that name is
// respected as held.
//
// Handles come from [Session.RWMutex]; methods of the zero RWMutex return an error. An
// RWMutex must not be copied after first use, and is safe for concurrent use. As a
// [Locker] it is its write side; [RWMutex.RLocker] is its read side. Each side has its
// own Done and Err.
//
// Readers and writers of all processes take turns: a waiting writer stops new readers, and
// when a writer is done, all readers that wait go before the next one. So a writer waits
// for the readers of one phase at most, besides other writers, who are in order of
// arrival; and a reader for one writer at most, or those of one process to whom it passes
// the lock within its tenure. An owner that reads may read again whatever waits. A writer may also read, and keeps reading
// when it unlocks the write side first. The other way round is refused with ErrUpgrade:
// two readers that waited to write would wait for each other.
//
// All readers of a session share one hold in Redis, which the first asks for and the
// last releases; for one tenure after Redis last said that no writer waits, more of
// them join without asking. A reader whose lease has another length than the
// session's ([WithLease]), or is bounded ([WithFixedLease], [WithMaxHold]), has a hold of
// its own.
type RWMutex struct {
	_ noCopy
	l engine.RWMutex
}

var _ Locker = (*RWMutex)(nil)

// RWMutex returns a read-write lock of the given name. It sends nothing and cannot
// fail: a bad name or option is reported by the first call that would use it.
func (s *Session) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{l: s.engine().RWMutex(name, lockConfigOf(opts))}
}

// Name returns the name of the lock.
func (rw *RWMutex) Name() string { return rw.lock().Name() }

// Lock locks rw for writing; see [Locker]. By an owner that holds only the read side it
// fails at once with ErrUpgrade.
func (rw *RWMutex) Lock(ctx context.Context) error { return on(ctx, rw.lock()).Lock(ctx) }

// TryLock tries to lock rw for writing without waiting; see [Locker].
func (rw *RWMutex) TryLock(ctx context.Context) (bool, error) { return on(ctx, rw.lock()).TryLock(ctx) }

// RLock locks rw for reading; see [Locker].
func (rw *RWMutex) RLock(ctx context.Context) error { return on(ctx, rw.lock()).Reader().Lock(ctx) }

// TryRLock tries to lock rw for reading without waiting; see [Locker]. It is false also
// while a writer waits.
func (rw *RWMutex) TryRLock(ctx context.Context) (bool, error) {
	return on(ctx, rw.lock()).Reader().TryLock(ctx)
}

// Unlock ends one Lock of rw; see [Locker]. If its owner reads as well, that goes on,
// and waiting readers enter.
func (rw *RWMutex) Unlock(ctx context.Context) error { return on(ctx, rw.lock()).Unlock(ctx) }

// RUnlock ends one RLock of rw; see [Locker]. If other goroutines of this session read
// on, nothing is sent.
func (rw *RWMutex) RUnlock(ctx context.Context) error { return on(ctx, rw.lock()).Reader().Unlock(ctx) }

// Done returns a channel that is closed when the latest write hold taken through rw
// ends; see [Locker].
func (rw *RWMutex) Done() <-chan struct{} { return rw.lock().Done() }

// Err tells whether the latest write hold taken through rw is held; see [Locker].
func (rw *RWMutex) Err() error { return rw.lock().Err() }

// FencingToken returns the fencing token of the latest write hold taken through rw; see
// [Mutex.FencingToken]. Readers have none.
func (rw *RWMutex) FencingToken() int64 { return rw.lock().FencingToken() }

// Deadline returns the time until which the write hold is certain; see
// [Mutex.Deadline].
func (rw *RWMutex) Deadline() (time.Time, bool) { return rw.lock().Deadline() }

func (rw *RWMutex) engineLock() multilock.Locker { return &rw.l }

// lock returns the lock of rw, a zero one if rw is nil.
func (rw *RWMutex) lock() *engine.RWMutex {
	if rw == nil {
		return new(engine.RWMutex)
	}
	return &rw.l
}

// RLocker returns the read side of rw as a Locker: its Lock and Unlock are RLock and
// RUnlock, and its Done and Err tell of the latest read hold taken through rw.
func (rw *RWMutex) RLocker() Locker { return (*rlocker)(rw) }

// rlocker is the read side of an RWMutex.
type rlocker RWMutex

func (r *rlocker) Lock(ctx context.Context) error            { return on(ctx, r.lock()).Lock(ctx) }
func (r *rlocker) TryLock(ctx context.Context) (bool, error) { return on(ctx, r.lock()).TryLock(ctx) }
func (r *rlocker) Unlock(ctx context.Context) error          { return on(ctx, r.lock()).Unlock(ctx) }
func (r *rlocker) Done() <-chan struct{}                     { return r.lock().Done() }
func (r *rlocker) Err() error                                { return r.lock().Err() }
func (r *rlocker) engineLock() multilock.Locker              { return r.l.Reader() }

func (r *rlocker) lock() *engine.Reader { return (*RWMutex)(r).lock().Reader() }
