package relocktest

import (
	"context"
	"sync"

	"github.com/relock-go/relock"
)

// Hold makes somebody else hold the lock of that name, whatever its type, until release is
// called: a process that renews its lease. It stops the test if the lock is taken. release may
// be called again, and does nothing if the lock was lost.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Hold(name string) (release func()) {
	r.t.Helper()
	other := r.other() // now, because release may be called while the test ends
	lock := other.Mutex(name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch ok, err := lock.TryLock(ctx); {
	case err != nil:
		r.t.Fatalf("relocktest: Hold(%q): %v", name, err)
	case !ok:
		r.t.Fatalf("relocktest: Hold(%q): the lock is taken", name)
	}
	return sync.OnceFunc(func() {
		_ = lock.Unlock(context.Background()) // fails only after a loss
		passOn(other, name)
	})
}

// Lose removes the lock of that name from Redis, as a failover can, and notifies its holders at
// once. Others may take it then. If nobody holds the lock, the test's log says so.
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
