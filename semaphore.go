package relock

import (
	"fmt"

	"github.com/relock-go/relock/internal/wire"
)

// A Semaphore is a lock with at most n holds at a time, over all processes. Each hold is a permit
// with a lease and a slot ([Hold.Slot]): the lowest free number from 0 to n-1, which no two holders
// have at the same time. Slots can number connections, API keys or workers.
//
// Permits go to callers in order of arrival, as with a [FairMutex]. Each caller applies its own n.
// While these differ, a caller with a larger n may exceed the smaller one, but queues behind
// earlier callers. A smaller n takes effect as holds end.
//
// [Do] and Acquire give each call its own permit, with its slot in the [Hold] ([HoldOf] in Do).
// Lock through one value also takes a permit for each call, but Unlock ends a lost one, else the
// newest, whichever goroutine calls it. An owner ([Session.NewContext]) has one permit, and enters
// again.
//
// A Semaphore and a lock of another type cannot share a name: the second one that is locked returns
// [ErrNotLock]. Redisson does not know Semaphores.
type Semaphore struct{ named }

var _ Locker = (*Semaphore)(nil)

// Semaphore returns the semaphore of that name with that many permits, at least one. It sends
// nothing and cannot fail; see [Session.Mutex].
func (s *Session) Semaphore(name string, permits int, opts ...LockOption) *Semaphore {
	m, c := new(Semaphore), unkeptConfigOf(opts)
	if c.Permits = permits; permits < 1 && c.Err == nil {
		c.Err = fmt.Errorf("%w: Semaphore with %d permits: must be at least 1", ErrOption, permits)
	}
	if c.Note != "" && c.Err == nil {
		c.Err = fmt.Errorf("%w: WithNote(%.40q): a Semaphore has no notes, only exclusive locks have", ErrOption, c.Note)
	}
	m.l = s.lock(wire.Semaphore, name, c)
	return m
}
