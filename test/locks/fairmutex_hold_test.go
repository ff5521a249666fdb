package locks_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

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
