package locks_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A session closes that only waits: nobody else is stopped by what it wanted.
func TestRWMutexCloseOfAWaitingSessionStopsNobody(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, waiter side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s, closes := kit.NewSession(t, at), kit.NewSession(t, at)
			held := holder.of(s.RWMutex("lock"))
			kit.Lock(t, kit.Background, held)
			ended := kit.Async(func() error { return waiter.of(closes.RWMutex("lock")).Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "the calls to wait", func() bool { return peek.Waits(closes, "lock") })
			require.NoError(t, closes.Close(kit.Background))
			require.ErrorIs(t, kit.Receive(t, ended, "the waiter to end"), relock.ErrClosed)
			require.NoError(t, held.Err())
			if holder == reading {
				require.True(t, tryRead(t, kit.NewSession(t, at).RWMutex("lock")), "no writer waits any more")
			}
			kit.Unlock(t, kit.Background, held)
			mustBeQuiet(t, kit.NewClient(t, at), "lock", s, closes)
		})
	})
}
