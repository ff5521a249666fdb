package relock

import (
	"fmt"

	"github.com/relock-go/relock/internal/wire"
)

// A Semaphore is a lock with at most n holds at a time, over all processes. Each hold is a permit
// with a lease and a slot ([Hold.Slot]): the lowest free number from 0 to n-1.
//
// Each Do, Acquire and Lock takes its own permit, in order of arrival, as with a [FairMutex]. An
// owner ([Session.NewContext]) has one, and enters again. Each caller applies its own n: one with a
// larger n may exceed a smaller one, but queues behind earlier callers (if a caller with a smaller
// n freezes in front of them, they may overtake each other). A smaller n takes effect as holds end.
//
// A Semaphore and a lock of another type cannot share a name: the second one that is locked returns
// [ErrNotLock]. Redisson does not know Semaphores.
type Semaphore struct{ named }

var _ Locker = (*Semaphore)(nil)

// Semaphore returns the semaphore of that name, with at least one permit; see [Session.Mutex].
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
