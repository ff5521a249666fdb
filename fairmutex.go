package relock

import "github.com/relock-go/relock/internal/wire"

// A FairMutex is a re-entrant mutual exclusion lock that goes to its callers in order of arrival,
// over all goroutines of all processes. It excludes every Mutex, FairMutex and Redisson RLock of
// the same name. A FairMutex has one place in the queue for each call, the Mutexes of a session
// share one. While Redisson waits for the lock, it is left to Redisson for a moment now and then.
//
// Unlock gives the lock to the first waiter. It passes over a waiter whose subscription is gone,
// which has its place back when its session polls, at least every 2 s. A process that is frozen
// while its connections stay open keeps the lock from the others for 5 s, however many of its
// goroutines wait; for 9 s if some of these have leases of less than 4 s. Then its waiters are
// passed over until it polls again.
//
// A waiter loses its place when it gives up, does not answer a grant within 5 s, when the queue is
// lost with Redis's data or because no waiter could reach Redis for 15 s, and when more than 10,000
// waiters are passed over. It queues again by itself.
type FairMutex struct{ named }

var _ Locker = (*FairMutex)(nil)

// FairMutex returns a fair lock of the given name. It sends nothing and cannot fail; see
// [Session.Mutex].
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	m := new(FairMutex)
	m.l = s.lock(wire.Fair, name, unkeptConfigOf(opts))
	return m
}
