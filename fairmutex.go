package relock

import "github.com/relock-go/relock/internal/wire"

// A FairMutex is a re-entrant mutual exclusion lock that goes to callers in order of arrival, over
// all goroutines of all processes. It excludes every [Mutex], FairMutex and Redisson RLock of the
// same name. Each call has its own entry in the queue; a session's Mutexes share one. While
// Redisson waits, the lock is left to it for a moment now and then.
//
// Unlock gives the lock to the first waiter whose session can be reached. The others come back in
// order of arrival. A frozen process whose connections stay open keeps the lock from the others for
// 5 s, however many of its goroutines wait; n such processes for n times that.
//
// A waiter that gives up loses its place. One that does not answer a grant within 5 s, or whose
// queue is lost with Redis's data, queues again by itself, in order of its arrival.
type FairMutex struct{ named }

var _ Locker = (*FairMutex)(nil)

// FairMutex returns the fair lock of that name. It sends nothing and cannot fail; see
// [Session.Mutex].
func (s *Session) FairMutex(name string, opts ...LockOption) *FairMutex {
	m := new(FairMutex)
	m.l = s.lock(wire.Fair, name, unkeptConfigOf(opts))
	return m
}
