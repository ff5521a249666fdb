package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// An entry of a session that is there, with a grant timeout of 0, is in the queue of readers.
func TestReadersQueueWithAGrantOfNothing(t *testing.T) {
	server := redistest.Start(t)
	a, b, c := kit.NewSession(t, server, relock.WithLease(3*time.Second)), kit.NewSession(t, server), kit.NewSession(t, server)
	ctx, stop := context.WithTimeout(context.Background(), 15*time.Second)
	defer stop()
	x := a.RWMutex("a")
	require.NoError(t, x.Lock(ctx))
	_, err := server.Do("ZADD", "relock_rdqueue:{a}", "1", c.ID()+":1 0")
	require.NoError(t, err)
	start := time.Now()
	t.Log("unlock:", x.Unlock(ctx), time.Since(start))
	time.Sleep(5 * time.Second)
	for range 3 {
		r := b.RWMutex("a").RLocker()
		err = r.Lock(ctx)
		t.Log("reader:", err)
		if err == nil {
			t.Log(r.Unlock(ctx))
		}
		w := b.RWMutex("a")
		err = w.Lock(ctx)
		t.Log("writer:", err)
		if err == nil {
			t.Log(w.Unlock(ctx))
		}
		time.Sleep(time.Second)
	}
	assert.NoError(t, err)
}

// The same in the queue of writers.
func TestWriterHoldsAFreeLock(t *testing.T) {
	server := redistest.Start(t)
	a, b, c := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewSession(t, server)
	_, err := server.Do("ZADD", "relock_rwqueue:{a}", "1", c.ID()+":1:write 0")
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	x, y := a.RWMutex("a"), b.RWMutex("a")
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
