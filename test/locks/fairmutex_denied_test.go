package locks_test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The looks after waiters took every error for one that passes, because they judged it
// after their own context had ended: a waiter that Redis refused for good waited on.
func TestFairWaiterLearnsThatRedisRefuses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.NewSession(t, srv)
	holder := kit.NewSession(t, srv).FairMutex("lock")
	require.NoError(t, holder.Lock(kit.Background))
	waiter := kit.Async(func() error { return s.FairMutex("lock").Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool {
		state, err := s.Inspect(kit.Background, "lock")
		return err == nil && state.Waiters == 1
	})
	_, err := srv.Do("ACL", "SETUSER", "default", "-evalsha", "-eval")
	require.NoError(t, err)
	require.ErrorContains(t, kit.Receive(t, waiter, "Lock to fail"), "NOPERM")
	_, err = srv.Do("ACL", "SETUSER", "default", "+@all")
	require.NoError(t, err)
	require.NoError(t, holder.Unlock(kit.Background))
}
