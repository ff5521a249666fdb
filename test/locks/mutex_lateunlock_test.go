package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/stretchr/testify/require"
)

// Which of two goroutines calls a bare Unlock cannot be known: the one whose hold was
// lost, or the one that has the lock now. So through the value of the loss nobody
// without an owner gets in before the lost hold was unlocked; all others do.
func TestWhoSharesAValueWithALostHoldWaitsForItsUnlock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, kit.Background, m)
		forceUnlock(t, s, m)

		_, err := m.TryLock(kit.Background)
		require.ErrorIs(t, err, relock.ErrLost)
		waiter := kit.Async(func() error { return m.Lock(kit.Background) })
		kit.Queued(t, s, "lock", 1)
		ctx, cancel := context.WithTimeout(kit.Background, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded, "nor does waiting help")

		for range 3 { // past the one that waits
			other := s.Mutex("lock")
			kit.Lock(t, kit.Background, other)
			kit.Unlock(t, kit.Background, other)
			kit.Lock(t, owner, m)
			kit.Unlock(t, owner, m)
		}
		require.Equal(t, 1, peek.Queued(s, "lock"))

		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
		require.NoError(t, kit.Receive(t, waiter, "the waiter to get in after that unlock"))
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrNotHeld)
	})
}
