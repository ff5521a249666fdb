package relocktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// Hold makes somebody else hold the lock of that name until release is called: a process that
// renews its lease. The lock may be of any type but [relock.Semaphore], whose permits
// [Redis.HoldPermits] takes. A lock that a session only keeps ([relock.WithKeep]) is given up. If
// it is held, Hold stops the test. release may be called again, and does nothing if the lock was
// lost.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Hold(name string) (release func()) {
	r.t.Helper()
	other := r.other() // now, because release may be called while the test ends
	hold := r.acquire(other.Mutex(name), fmt.Sprintf("Hold(%q)", name))
	return sync.OnceFunc(func() {
		_ = hold.Unlock(context.Background()) // fails only after a loss
		passOn(other, name)
	})
}

// HoldPermits makes somebody else hold so many permits of the [relock.Semaphore] of that name, as
// [Redis.Hold] holds a lock. If that many are not free, HoldPermits stops the test.
func (r *Redis) HoldPermits(name string, permits int) (release func()) {
	r.t.Helper()
	var held []*relock.Hold
	for range permits {
		held = append(held, r.acquire(r.other().Semaphore(name, permits), fmt.Sprintf("HoldPermits(%q, %d)", name, permits)))
	}
	return sync.OnceFunc(func() {
		for _, hold := range held {
			_ = hold.Unlock(context.Background()) // fails only after a loss
		}
	})
}

// acquire acquires lock for the call that is named.
func (r *Redis) acquire(
	lock interface {
		Acquire(ctx context.Context) (*relock.Hold, error)
	}, call string,
) *relock.Hold {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), recallMost)
	defer cancel()
	hold, err := lock.Acquire(ctx)
	switch {
	case errors.Is(err, relock.ErrNotLock):
		r.t.Fatalf("relocktest: %s: %v; HoldPermits is for Semaphores, Hold for all other locks", call, err)
	case errors.Is(err, relock.ErrTaken):
		r.t.Fatalf("relocktest: %s: the lock is taken", call)
	case err != nil:
		r.t.Fatalf("relocktest: %s: %v", call, err)
	}
	return hold
}

// recallMost bounds for how long acquire waits for a session to give up what it only keeps.
const recallMost = 5 * time.Second

// Lose has somebody force the lock of that name open, as [relock.Session.ForceUnlock] does: its
// holders are told at once, and their loss is [relock.ErrForced]. Others may take it then. If
// nobody holds the lock, the test's log says so.
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

// Delete removes the lock of that name from Redis and tells nobody, as after a failover to a
// replica that did not have it: its holders find out at their next renewal, and their loss is
// [relock.ErrGone]. Others may take it before that. If Redis does not have the lock, the test's log
// says so.
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
