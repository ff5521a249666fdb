package locks_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Regression: of several readers through one value, the one whose unlock was counted
// for another owner's lost hold stayed for ever, once the others had unlocked.
func TestAfterALossEveryReadHoldEndsWithItsUnlocks(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, owner, rw.RLocker())
		done := rw.RLocker().Done()
		_, err := s.ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		kit.Receive(t, done, "the reader to be told")
		const others = 4
		for range others {
			kit.Lock(t, kit.Background, rw.RLocker())
		}
		require.ErrorIs(t, rw.RUnlock(kit.Background), relock.ErrLost, "it may be the lost one's")
		for range others - 1 {
			require.NoError(t, rw.RUnlock(kit.Background))
		}
		require.Equal(t, relock.Shared, inspect(t, s, "lock").Mode)
		require.ErrorIs(t, rw.RUnlock(owner), relock.ErrLost, "it was not")
		redistest.Eventually(t, kit.Quickly, "the last reader's hold to end", func() bool {
			return inspect(t, s, "lock").Mode == relock.Unlocked
		})
		require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, rw.RUnlock(kit.Background), relock.ErrNotHeld)
	})
}
