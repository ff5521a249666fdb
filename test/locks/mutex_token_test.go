package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The token of a lock that was granted to a waiter is remembered for a minute as well.
func TestTokenOfAGrantIsRememberedAsLong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	ask := func(args ...string) int64 {
		reply, err := server.Do(args...)
		require.NoError(t, err)
		return reply.(int64)
	}
	first, next := s.FairMutex("lock"), s.FairMutex("lock")
	kit.Lock(t, kit.Background, first)
	token := first.FencingToken()
	got := kit.Async(func() error { return next.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the next one to queue", func() bool {
		return ask("ZCARD", "relock_queue:{lock}") == 1
	})
	require.Equal(t, int64(1), ask("PEXPIRE", "relock_fence:{lock}", "9000"))
	kit.Unlock(t, kit.Background, first)
	require.NoError(t, kit.Receive(t, got, "the next one to get in"))
	require.Greater(t, next.FencingToken(), token)
	require.Greater(t, ask("PTTL", "relock_fence:{lock}"), time.Minute.Milliseconds()/2)
	kit.Unlock(t, kit.Background, next)
}
