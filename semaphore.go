package relock

import (
	"fmt"

	"github.com/relock-go/relock/internal/wire"
)

// A Semaphore is a lock of which at most n holds exist at a time, over all processes. Each hold is
// a permit with a lease, as that of a [Mutex] is, so those of a dead process are free after a
// lease. It has a slot, a number from 0 to n-1 that no two holders have at the same time: the
// lowest that is free. Slots are numbers of connections, API keys or workers; see [Hold.Slot].
//
// Permits go to callers in order of arrival, over all goroutines of all processes: a Semaphore
// waits as a [FairMutex] does. Each caller applies its own n. While these differ, a caller with a
// larger n may exceed the smaller one, but still queues behind earlier callers. A smaller n takes
// effect as holds end.
//
// [Do] and Acquire give each call a permit of its own; [HoldOf] in Do, and the [Hold], know its
// slot. Lock through one value takes a permit for each call as well, but Unlock ends a lost one,
// else the one locked last, whichever goroutine calls it. An owner ([Session.NewContext]) has one
// permit, and enters again.
//
// A Semaphore and a lock of another type cannot have the same name: the second one that is locked
// returns [ErrNotLock]. Redisson does not know it.
type Semaphore struct{ named }

var _ Locker = (*Semaphore)(nil)

// Semaphore returns a semaphore of the given name with that many permits, at least one. It sends
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
