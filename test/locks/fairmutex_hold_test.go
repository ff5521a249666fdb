package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The holder is told, and the lock goes to the first waiter, also of the same session.
func TestFairMutexForcedOpenGoesToTheNext(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		for _, by := range []*relock.Session{s, other} {
			for _, to := range []*relock.Session{s, other} {
				m, next := s.FairMutex("lock"), to.FairMutex("lock")
				kit.Lock(t, kit.Background, m)
				token := m.FencingToken()
				got := kit.Async(func() error { return next.Lock(kit.Background) })
				waiting(t, s, "lock", 1)
				was, err := by.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.True(t, was)
				require.NoError(t, kit.Receive(t, got, "the next to get in"))
				lostIn(t, kit.Quickly, m)
				require.Greater(t, next.FencingToken(), token)
				require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
				require.NoError(t, next.Err())
				kit.Unlock(t, kit.Background, next)
				was, err = by.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.False(t, was)
			}
		}
	})
}

// A place in the queue costs nothing but its looks: no goroutine, no connection, and no
// script when the owner enters again.
func TestFairMutexReentrySendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server), kit.NewSession(t, server)
	warmUpFair(t, s)
	m, same, owner := s.FairMutex("lock"), s.FairMutex("lock"), s.NewContext(kit.Background)
	kit.Lock(t, owner, m)
	done, token := m.Done(), m.FencingToken()
	cost := trafficOf(server, func() {
		for range 10 {
			kit.Lock(t, owner, same)
			require.True(t, kit.TryLock(t, owner, m))
			kit.Unlock(t, owner, m)
		}
	})
	require.Zero(t, cost)
	require.Equal(t, token, same.FencingToken())
	for range 10 {
		require.False(t, kit.TryLock(t, kit.Background, other.FairMutex("lock")))
		kit.Unlock(t, owner, m)
	}
	require.False(t, kit.IsClosed(done))
	kit.Unlock(t, owner, m)
	require.True(t, kit.IsClosed(done))
	require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
	require.True(t, kit.TryLock(t, kit.Background, other.FairMutex("lock")))
}

// Goroutines that share an owner enter together: what the others have queued for is
// given back, and goes to the next.
func TestFairMutexWaitersOfOneOwnerEnterTogether(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const n = 6
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		m, owner := s.FairMutex("lock"), s.NewContext(kit.Background)
		for _, from := range []*relock.FairMutex{s.FairMutex("lock"), other.FairMutex("lock")} {
			kit.Lock(t, kit.Background, from)
			got := make(chan error, n)
			for range n {
				go func() { got <- m.Lock(owner) }()
			}
			waiting(t, s, "lock", n)
			last := other.FairMutex("lock")
			behind := kit.Async(func() error { return last.Lock(kit.Background) })
			waiting(t, s, "lock", n+1)
			kit.Unlock(t, kit.Background, from)
			for range n {
				require.NoError(t, kit.Receive(t, got, "every goroutine of the owner to enter"))
			}
			waiting(t, s, "lock", 1)
			for range n {
				require.NoError(t, m.Err())
				kit.Unlock(t, owner, m)
			}
			require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
			require.NoError(t, kit.Receive(t, behind, "the one behind to get in"))
			kit.Unlock(t, kit.Background, last)
			nothingOf(t, client, "lock")
		}
	})
}

// Which of two goroutines calls a bare Unlock cannot be known after a loss; see
// TestWhoSharesAValueWithALostHoldWaitsForItsUnlock.
func TestFairMutexWaitsForTheUnlockOfALostHold(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		m, owner := s.FairMutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, kit.Background, m)
		forceUnlock(t, s, m)
		_, err := m.TryLock(kit.Background)
		require.ErrorIs(t, err, relock.ErrLost)
		waiter := kit.Async(func() error { return m.Lock(kit.Background) })
		ctx, cancel := context.WithTimeout(kit.Background, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded, "nor does waiting help")
		for range 3 { // past the one that waits
			other := s.FairMutex("lock")
			kit.Lock(t, kit.Background, other)
			kit.Unlock(t, kit.Background, other)
			kit.Lock(t, owner, m)
			kit.Unlock(t, owner, m)
		}
		require.Empty(t, kit.Keys(t, client), "it does not even queue")
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
		require.NoError(t, kit.Receive(t, waiter, "the waiter to get in after that unlock"))
		kit.Unlock(t, kit.Background, m)
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrNotHeld)
	})
}
