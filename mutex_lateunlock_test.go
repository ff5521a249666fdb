package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/stretchr/testify/require"
)

// Which of two goroutines calls a bare Unlock cannot be known: the one whose hold was
// lost, or the one that has the lock now. So through the value of the loss nobody
// without an owner gets in before the lost hold was unlocked; all others do.
func TestWhoSharesAValueWithALostHoldWaitsForItsUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m, owner := s.Mutex("lock"), s.NewContext(background)
		lock(t, background, m)
		forceUnlock(t, s, m)

		require.False(t, tryLock(t, background, m))
		waiter := async(func() error { return m.Lock(background) })
		queued(t, s, "lock", 1)
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded, "nor does waiting help")

		for range 3 { // past the one that waits
			other := s.Mutex("lock")
			lock(t, background, other)
			unlock(t, background, other)
			lock(t, owner, m)
			unlock(t, owner, m)
		}
		require.Equal(t, 1, peek.Queued(s, "lock"))

		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		require.NoError(t, receive(t, waiter, "the waiter to get in after that unlock"))
		require.NoError(t, m.Err())
		unlock(t, background, m)
		require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
	})
}
