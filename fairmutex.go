package relock

import "github.com/relock-go/relock/internal/wire"

// A FairMutex is a re-entrant mutual exclusion lock that goes to its callers in order of arrival,
// over all goroutines of all processes. It excludes every Mutex, FairMutex and Redisson RLock of
// the same name. A FairMutex has one entry in the queue for each call, the Mutexes of a session
// share one. While Redisson waits for the lock, it is left to Redisson for a moment now and then.
//
// Unlock gives the lock to the first waiter whose session can be reached. The others are passed
// over and come back in order of their arrival. A process that is frozen while its connections stay
// open keeps the lock from the others for 5 s, however many of its goroutines wait; n such
// processes for n times that.
//
// A waiter loses its place when it gives up. One that does not answer a grant within 5 s, or whose
// queue is lost with Redis's data, queues again by itself, in order of its arrival.
type FairMutex struct{ named }

var _ Locker = (*FairMutex)(nil)

// FairMutex returns a fair lock of the given name. It sends nothing and cannot fail; see
// [Session.Mutex].
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	m := new(FairMutex)
	m.l = s.lock(wire.Fair, name, unkeptConfigOf(opts))
	return m
}
