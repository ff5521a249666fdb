package relock_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Regression: of several readers through one value, the one whose unlock was counted
// for another owner's lost hold stayed for ever, once the others had unlocked.
func TestAfterALossEveryReadHoldEndsWithItsUnlocks(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(background)
		lock(t, owner, rw.RLocker())
		done := rw.RLocker().Done()
		_, err := s.ForceUnlock(background, "lock")
		require.NoError(t, err)
		receive(t, done, "the reader to be told")
		const others = 4
		for range others {
			lock(t, background, rw.RLocker())
		}
		require.ErrorIs(t, rw.RUnlock(background), relock.ErrLost, "it may be the lost one's")
		for range others - 1 {
			require.NoError(t, rw.RUnlock(background))
		}
		require.Equal(t, relock.Shared, inspect(t, s, "lock").Mode)
		require.ErrorIs(t, rw.RUnlock(owner), relock.ErrLost, "it was not")
		redistest.Eventually(t, quickly, "the last reader's hold to end", func() bool {
			return inspect(t, s, "lock").Mode == relock.Unlocked
		})
		require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, rw.RUnlock(background), relock.ErrNotHeld)
	})
}
