package relocktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// Hold makes somebody else hold the lock of that name until release is called: a process that
// renews its lease. The lock may be of any type but [relock.Semaphore], which is of another kind in Redis:
// let a session of the test take its permits. A lock that a session only keeps ([relock.WithKeep]) is
// given up. If it is held, Hold stops the test. release may be called again, and does nothing if the
// lock was lost.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Hold(name string) (release func()) {
	r.t.Helper()
	other := r.other() // now, because release may be called while the test ends
	lock := other.Mutex(name)
	ctx, cancel := context.WithTimeout(context.Background(), recallMost)
	defer cancel()
	switch err := lock.Lock(ctx); {
	case errors.Is(err, relock.ErrNotLock):
		r.t.Fatalf("relocktest: Hold(%q): %v; of a Semaphore, let a session of the test take the permits", name, err)
	case errors.Is(err, relock.ErrTaken):
		r.t.Fatalf("relocktest: Hold(%q): the lock is taken", name)
	case err != nil:
		r.t.Fatalf("relocktest: Hold(%q): %v", name, err)
	}
	return sync.OnceFunc(func() {
		_ = lock.Unlock(context.Background()) // fails only after a loss
		passOn(other, name)
	})
}

// recallMost bounds for how long Hold waits for a session to give up what it only keeps.
const recallMost = 5 * time.Second

// Lose has somebody force the lock of that name open, as [relock.Session.ForceUnlock] does: its holders are
// told at once, and their loss is [relock.ErrForced]. Others may take it then. If nobody holds the lock,
// the test's log says so.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Lose(name string) {
	r.t.Helper()
	other := r.other()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch was, err := other.ForceUnlock(ctx, name); {
	case err != nil:
		r.t.Errorf("relocktest: Lose(%q): %v", name, err)
	case !was:
		r.t.Logf("relocktest: Lose(%q): nobody holds the lock", name)
	}
	passOn(other, name)
}

// Delete removes the lock of that name from Redis and tells nobody, as after a failover to a replica that did not
// have it: its holders find out at their next renewal, and their loss is [relock.ErrGone]. Others may take it
// before that. If Redis does not have the lock, the test's log says so.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Delete(name string) {
	r.t.Helper()
	if _, was := r.server.TTL(name); !was {
		r.t.Logf("relocktest: Delete(%q): nobody holds the lock", name)
	}
	r.server.Evict(name)
}

// passOn gives a lock that is free to those who queue for an RWMutex of that name. The release of a
// Mutex, which Hold takes, does not; but whoever finds the lock free does.
func passOn(s *relock.Session, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if state, err := s.Inspect(ctx, name); err != nil || state.Waiters == 0 {
		return
	}
	lock := s.RWMutex(name)
	if ok, _ := lock.TryLock(ctx); ok {
		_ = lock.Unlock(ctx)
	}
}
