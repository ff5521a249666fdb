package relock

import "github.com/relock-go/relock/internal/wire"

// A FairMutex is a re-entrant mutual exclusion lock that goes to callers in order of arrival, over
// all goroutines of all processes. It excludes the same locks as a [Mutex]. A session's Mutexes
// share one place in its queue. While Redisson waits, the lock is left to it now and then.
//
// Unlock gives the lock to the first waiter whose session can be reached; the others keep their
// order. Each frozen process whose connections stay open delays them by 5 s, however many of its
// goroutines wait. A waiter that gives up loses its place. One that does not answer a grant within
// 5 s, or whose queue Redis has lost, queues again in order of its arrival; waiters of one session
// that do so at the same moment may overtake each other. The order is that of the server's clock: a
// step of the clock may change it.
type FairMutex struct{ named }

var _ Locker = (*FairMutex)(nil)

// FairMutex returns the fair lock of that name; see [Session.Mutex].
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	m := new(FairMutex)
	m.l = s.lock(wire.Fair, name, unkeptConfigOf(opts))
	return m
}
