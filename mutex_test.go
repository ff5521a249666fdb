package relock_test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Somebody asks Redis in vain, so nobody in the session holds anything; an attempt
// in the same session neither waits for that call nor overtakes it.
func TestTryLockIsFalseWhileAGoroutineContends(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, s := kit.NewSession(t, server).Mutex("lock"), kit.NewSession(t, server)
	kit.Lock(t, kit.Background, holder)
	waiter, behind := s.Mutex("lock"), s.Mutex("lock")
	first := kit.Async(func() error { return waiter.Lock(kit.Background) })
	kit.Awaited(t, kit.NewClient(t, server), "lock")
	second := kit.Async(func() error { return behind.Lock(kit.Background) })
	kit.Queued(t, s, "lock", 1)
	before := server.CommandStats()["evalsha"]
	for range 100 {
		require.False(t, kit.TryLock(t, kit.Background, s.Mutex("lock")))
	}
	require.Less(t, server.CommandStats()["evalsha"]-before, int64(50), "attempts must not ask Redis")
	kit.Unlock(t, kit.Background, holder)
	require.NoError(t, kit.Receive(t, first, "the waiter to get in"))
	kit.Unlock(t, kit.Background, waiter)
	require.NoError(t, kit.Receive(t, second, "the second waiter to get in"))
	kit.Unlock(t, kit.Background, behind)
}
