package relock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// Guarantee 4: the unlock of a lost hold releases nothing, whoever has the lock now
// and through whatever value.
func TestALateUnlockReleasesNobody(t *testing.T) {
	next := map[string]func(t *testing.T, s *relock.Session, at addressed) *relock.Mutex{
		"another session": func(t *testing.T, s *relock.Session, at addressed) *relock.Mutex {
			return newSession(t, at).Mutex("lock")
		},
		"another value": func(t *testing.T, s *relock.Session, at addressed) *relock.Mutex { return s.Mutex("lock") },
	}
	for who, successor := range next {
		for _, owned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, owner %t", who, owned), func(t *testing.T) {
				onBoth(t, func(t *testing.T, at addressed) {
					s, client := newSession(t, at), newClient(t, at)
					m, after, ctx := s.Mutex("lock"), successor(t, s, at), context.Context(background)
					if owned {
						ctx = s.NewContext(ctx)
					}
					lock(t, ctx, m)
					forceUnlock(t, s, m)
					lock(t, background, after)
					held := hashOf(t, client, "lock")
					require.ErrorIs(t, m.Unlock(ctx), relock.ErrLost)
					require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)
					require.NoError(t, after.Err())
					require.Equal(t, held, hashOf(t, client, "lock"))
					unlock(t, background, after)
				})
			})
		}
	}
}

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
		require.Equal(t, 1, s.Queued("lock"))

		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		require.NoError(t, receive(t, waiter, "the waiter to get in after that unlock"))
		require.NoError(t, m.Err())
		unlock(t, background, m)
		require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
	})
}
