package locks_test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A user without the right to PUBSUB cannot learn whose session is there. If that counted as nobody's,
// releases would leave the lock free, and waiters would find it at their next look, in 1.7 s.
func TestWaitersCountAsThereWherePubSubIsNotPermitted(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		_, err := server.Do("ACL", "SETUSER", "default", "-pubsub")
		require.NoError(t, err)
		a, b := kit.NewSession(t, server), kit.NewSession(t, server)
		holds, waits := k.Holder(a), k.Of(b)
		ctx, cancel := kit.ContextFor(kit.Soon) // now and then a release leaves the lock to Redisson for a moment
		defer cancel()
		require.NoError(t, holds.Lock(ctx))
		for n := range 60 {
			locked := kit.Async(func() error { return waits.Lock(ctx) })
			redistest.Eventually(t, kit.Soon, "somebody to wait", func() bool {
				state, err := b.Inspect(kit.Background, "lock")
				return err == nil && state.Waiters == 1 || ctx.Err() != nil
			})
			kit.Unlock(t, kit.Background, holds)
			require.NoError(t, <-locked, "hand-over %d", n)
			holds, waits = waits, holds
		}
		kit.Unlock(t, kit.Background, holds)
	})
}
