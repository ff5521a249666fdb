package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/wire"
)

// A FairMutex is a re-entrant mutual exclusion lock that goes to its callers in order of arrival,
// over all goroutines of all processes that use it. It shares its key, and so
// excludes, with every Mutex, FairMutex and Redisson lock of the same name. A session's Mutexes
// have one place in its queue. While a lock of Redisson waits, the lock is left to it for a
// moment every now and then.
//
// The queue is in Redis and goes by the server's clock. Unlock gives the lock directly
// to the first waiter: it has it when the message arrives. A waiter whose subscription
// connection is gone at that moment is passed over at no cost, and stands back until its session
// has looked at the lock, which it does at least every 2 s: then it has its old place again. If it
// still hears no messages, it comes next, and finds at a look that it has the lock.
//
// A process that is frozen, or unplugged while its connections stay open, keeps the lock from the
// others for one claim of 5 s, however many of its goroutines wait, and for 9 s at most if some of
// them have leases of less than 4 s: after that they all stand back until it looks again.
//
// A waiter loses its place when it gives up; when it was given the lock and has not answered within
// the claim; when all of the queue is lost, because Redis has lost its data or no waiter was able to
// ask Redis for 15 s; and when more than 10,000 waiters stand back. It queues again by itself.
//
// A [Mutex] goes through Redis once for many goroutines, a FairMutex for each call. Use a
// FairMutex where order matters.
type FairMutex struct {
	_ noCopy
	l engine.Lock
}

var _ Locker = (*FairMutex)(nil)

// FairMutex returns a fair lock of the given name. It sends nothing and cannot fail: a
// bad name or option is reported by the first call that would use it.
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	m := new(FairMutex)
	m.l.Init(s.e, wire.Fair, name, lockConfigOf(opts))
	return m
}

// Name returns the name of the lock.
func (m *FairMutex) Name() string { return m.l.Name() }

// Lock queues for m and blocks until it is held; see [Locker]. If ctx ends first the
// place in the queue is given up.
func (m *FairMutex) Lock(ctx context.Context) error { return m.l.Lock(ctx) }

// TryLock locks m if it is free and nobody queues for it; see [Locker].
func (m *FairMutex) TryLock(ctx context.Context) (bool, error) { return m.l.TryLock(ctx) }

// Unlock ends one Lock of m; see [Locker]. The last one gives the lock to the first
// waiter.
func (m *FairMutex) Unlock(ctx context.Context) error { return m.l.Unlock(ctx) }

// Done returns a channel that is closed when the latest hold taken through m ends; see
// [Locker].
func (m *FairMutex) Done() <-chan struct{} { return m.l.Done() }

// Err tells whether the latest hold taken through m is held; see [Locker].
func (m *FairMutex) Err() error { return m.l.Err() }

// FencingToken returns the fencing token of the latest hold taken through m; see
// [Mutex.FencingToken].
func (m *FairMutex) FencingToken() int64 { return m.l.FencingToken() }

// Deadline returns the time until which the hold is certain; see [Mutex.Deadline].
func (m *FairMutex) Deadline() (time.Time, bool) { return m.l.Deadline() }

func (m *FairMutex) member() engine.Member { return &m.l }
