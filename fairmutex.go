package relock

import "github.com/relock-go/relock/internal/wire"

// A FairMutex is a re-entrant mutual exclusion lock that goes to its callers in order of arrival,
// over all goroutines of all processes. It excludes every Mutex, FairMutex and Redisson RLock of the
// same name. A session's Mutexes have one place in its queue, a FairMutex one for each call. While
// Redisson waits for the lock, it is left to Redisson for a moment now and then.
//
// Unlock gives the lock to the first waiter. One whose subscription is gone is passed over, and has its
// place back when its session looks at the lock, at least every 2 s. A process that is frozen while its
// connections stay open keeps the lock from the others for one claim of 5 s, however many of its
// goroutines wait; for 9 s if some of these have leases of less than 4 s. Then its waiters stand back
// until it looks again.
//
// A waiter loses its place when it gives up, does not answer a grant within the claim, when the queue is
// lost with Redis's data or because nobody could ask Redis for 15 s, and when more than 10,000 waiters
// stand back. It queues again by itself.
type FairMutex struct{ named }

var _ Locker = (*FairMutex)(nil)

// FairMutex returns a fair lock of the given name. It sends nothing and cannot fail; see
// [Session.Mutex].
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	m := new(FairMutex)
	m.l = s.lock(wire.Fair, name, unkeptConfigOf(opts))
	return m
}
