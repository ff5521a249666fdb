package locks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// 1000 entries of sessions that are gone, or garbage, are first in the queue of readers of a free lock.
func TestReaderHoldsAFreeLock(t *testing.T) {
	server := redistest.Start(t)
	a, b := kit.NewSession(t, server), kit.NewSession(t, server)
	for i := range 1000 {
		_, err := server.Do("ZADD", "relock_rdqueue:{a}", "1", fmt.Sprintf("00000001-0000-8000-8000-000000000000:%d", i+1))
		require.NoError(t, err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	r := a.RWMutex("a").RLocker()
	ok, err := r.TryLock(ctx)
	require.NoError(t, err)
	if !ok {
		return
	}
	n, _ := server.Do("EXISTS", "a")
	w := b.RWMutex("a")
	ok, err = w.TryLock(ctx)
	require.NoError(t, err)
	require.False(t, ok, "EXISTS a: %v; the reader: %v, the writer: %v (token %d): two valid holds", n, r.Err(), w.Err(), w.FencingToken())
}

// An entry of a session that is there, with a grant timeout of 0, is in the queue of a free Mutex.
func TestMutexHoldsAFreeLock(t *testing.T) {
	server := redistest.Start(t)
	a, b, c := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewSession(t, server)
	_, err := server.Do("ZADD", "relock_queue:{a}", "1", c.ID()+":1 0")
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	x, y := a.Mutex("a"), b.Mutex("a")
	ok, err := x.TryLock(ctx)
	require.NoError(t, err)
	if !ok {
		return
	}
	n, _ := server.Do("EXISTS", "a")
	ok, err = y.TryLock(ctx)
	require.NoError(t, err)
	require.False(t, ok, "EXISTS a: %v; tokens %d and %d, %v and %v: two valid holds", n, x.FencingToken(), y.FencingToken(), x.Err(), y.Err())
}

// An entry of a session that is there, without a limit, is first in the queue of a free Semaphore.
func TestSemaphoreIsHeldUpByAnEntryWithoutALimit(t *testing.T) {
	server := redistest.Start(t)
	a, c := kit.NewSession(t, server), kit.NewSession(t, server)
	_, err := server.Do("ZADD", "relock_queue:{a}", "1", c.ID()+":1")
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	require.NoError(t, a.Semaphore("a", 5).Lock(ctx))
}
