package relock

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/wire"
)

// A Semaphore is a lock of which at most n holds exist at a time, over all processes. Each hold is a
// permit with a lease, as that of a [Mutex] is, so those of a dead process are free after a lease. It
// has a slot, a number from 0 to n-1 that no two holders have at the same time: the lowest that is
// free. Slots are numbers of connections, API keys or workers; see [Semaphore.Slot] and [Slot].
//
// Permits go to callers in order of arrival, over all goroutines of all processes: a Semaphore waits
// as a [FairMutex] does. Each handle has its own n. A caller gets a permit when fewer than its own n
// are held; so while processes with another n are about, those with a larger one may hold more, and
// wait behind callers with a smaller one that came before them. A smaller n takes effect as holds end.
//
// One handle serves many goroutines: each Lock without an owner in its context takes a permit of its
// own, and Unlock ends the latest one taken through the handle. Whoever needs his own permit, and its
// slot, uses [Do], or an owner ([Session.NewContext]), who has one permit and enters again. While a
// permit taken through the handle is lost and not yet unlocked, Lock through it waits, as for every
// [Locker].
//
// A Semaphore and a lock of another type cannot have the same name: whoever comes second gets
// [ErrNotLock]. Redisson does not know it.
type Semaphore struct {
	_ noCopy
	l engine.Lock
}

var _ Locker = (*Semaphore)(nil)

// Semaphore returns a semaphore of the given name with that many permits, at least one. It sends
// nothing and cannot fail; see [Session.Mutex].
func (s *Session) Semaphore(name string, permits int, opts ...LockOption) *Semaphore {
	m, c := new(Semaphore), unkeptConfigOf(opts)
	if c.Permits = permits; permits < 1 && c.Err == nil {
		c.Err = fmt.Errorf("%w: Semaphore with %d permits: must be at least 1", ErrOption, permits)
	}
	m.l.Init(s.e, wire.Semaphore, name, c)
	return m
}

// Name returns the name of the semaphore.
func (m *Semaphore) Name() string { return m.l.Name() }

// Lock acquires a permit; see [Locker].
func (m *Semaphore) Lock(ctx context.Context) error { return m.l.Lock(ctx) }

// TryLock tries to acquire a permit. It is false as well while others wait; see [Locker].
func (m *Semaphore) TryLock(ctx context.Context) (bool, error) { return m.l.TryLock(ctx) }

// Unlock ends one Lock of m; see [Locker].
func (m *Semaphore) Unlock(ctx context.Context) error { return m.l.Unlock(ctx) }

// Wanted tells that somebody else waits for a permit while the latest one is held; see [Mutex.Wanted].
// Every process with a permit is told; of more than 100 permits those whose leases end first.
func (m *Semaphore) Wanted() <-chan struct{} { return m.l.Wanted() }

// Done tells when the latest permit ends; see [Locker].
func (m *Semaphore) Done() <-chan struct{} { return m.l.Done() }

// Err tells of the latest permit; see [Locker].
func (m *Semaphore) Err() error { return m.l.Err() }

// Slot returns the slot of the latest permit taken through m that is held, -1 if none is. If m is
// shared, that permit may be another's: in Do use [Slot].
func (m *Semaphore) Slot() int { return m.l.Slot() }

// FencingToken returns the token of the latest permit; see [Mutex.FencingToken]. Tokens grow over all
// permits of a semaphore, so also from each holder of a slot to the next.
func (m *Semaphore) FencingToken() int64 { return m.l.FencingToken() }

// Deadline returns that of the latest permit; see [Mutex.Deadline].
func (m *Semaphore) Deadline() (time.Time, bool) { return m.l.Deadline() }

func (m *Semaphore) member() engine.Member { return &m.l }
