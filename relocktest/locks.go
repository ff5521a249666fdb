package relocktest

import (
	"context"
	"sync"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/wire"
)

// Hold makes somebody else hold the lock of that name, whatever its type, until release is
// called: a process that renews its lease. It stops the test if the lock is taken. release may
// be called again, and does nothing if the lock was lost.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Hold(name string) (release func()) {
	r.t.Helper()
	client := r.Client() // now, because release may be called while the test ends
	lock := r.other().Mutex(name)
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
		wakeReaders(client, name)
	})
}

// Lose removes the lock of that name from Redis, as a failover can, and notifies its holders at
// once. Others may take it then. If nobody holds the lock, the test's log says so.
//
// The name is that in Redis, with the prefix of the sessions if they have one.
func (r *Redis) Lose(name string) {
	r.t.Helper()
	client := r.Client()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch was, err := r.other().ForceUnlock(ctx, name); {
	case err != nil:
		r.t.Errorf("relocktest: Lose(%q): %v", name, err)
	case !was:
		r.t.Logf("relocktest: Lose(%q): nobody holds the lock", name)
	}
	wakeReaders(client, name)
}

// wakeReaders tells those who wait for an RWMutex that they may look again: a Mutex of the same
// name, which Hold takes, does not.
func wakeReaders(client rueidis.Client, name string) {
	keys := wire.NewKeys(wire.Write, name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client.Do(ctx, client.B().Publish().Channel(keys.Channel).Message("1").Build())
}
