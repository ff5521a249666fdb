package relock

import (
	"fmt"

	"github.com/relock-go/relock/internal/wire"
)

// A Semaphore is a lock of which at most n holds exist at a time, over all processes. Each hold is a
// permit with a lease, as that of a [Mutex] is, so those of a dead process are free after a lease. It
// has a slot, a number from 0 to n-1 that no two holders have at the same time: the lowest that is
// free. Slots are numbers of connections, API keys or workers; see [Hold.Slot].
//
// Permits go to callers in order of arrival, over all goroutines of all processes: a Semaphore waits
// as a [FairMutex] does. Each handle has its own n. A caller gets a permit when fewer than its own n
// are held; so while processes with another n are about, those with a larger one may hold more, and
// wait behind callers with a smaller one that came before them. A smaller n takes effect as holds end.
//
// One lock value serves many goroutines: each Lock without an owner in its context takes a permit of its own, and Unlock
// ends a lost one, else the latest one taken through the value. A goroutine that needs its own permit, and its slot, uses
// Acquire or [Do], or an owner ([Session.NewContext]), who has one permit and enters again.
//
// A Semaphore and a lock of another type cannot have the same name: whoever comes second gets
// [ErrNotLock]. Redisson does not know it.
type Semaphore struct{ named }

var _ Locker = (*Semaphore)(nil)

// Semaphore returns a semaphore of the given name with that many permits, at least one. It sends
// nothing and cannot fail; see [Session.Mutex].
func (s *Session) Semaphore(name string, permits int, opts ...LockOption) *Semaphore {
	m, c := new(Semaphore), unkeptConfigOf(opts)
	if c.Permits = permits; permits < 1 && c.Err == nil {
		c.Err = fmt.Errorf("%w: Semaphore with %d permits: must be at least 1", ErrOption, permits)
	}
	m.l = s.lock(wire.Semaphore, name, c)
	return m
}
