package locks_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// traffic is what the locks of a server have cost it.
type traffic struct {
	scripts  int64 // sent
	acquired int64 // exclusive holds that were granted
	released int64 // fields of lock hashes that were removed, or not found
}

// trafficOf counts what f costs a server. The scripts must have been used before.
func trafficOf(server *redistest.Server, f func()) traffic {
	before := server.CommandStats()
	f()
	after := server.CommandStats()
	return traffic{
		scripts:  after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"],
		acquired: after["hset"] - before["hset"],
		released: after["hdel"] - before["hdel"],
	}
}

func TestReentryCostsOneAcquisition(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := kit.NewSession(t, server), kit.NewClient(t, server)
	kit.WarmUp(t, s)
	other := kit.NewSession(t, server).Mutex("lock")
	owner := s.NewContext(kit.Background)
	shapes := map[string][]*relock.Mutex{"values": {s.Mutex("lock"), s.Mutex("lock"), s.Mutex("lock")}}
	one := s.Mutex("lock")
	shapes["one value"] = []*relock.Mutex{one, one, one}
	for shape, locks := range shapes {
		cost := trafficOf(server, func() {
			for _, m := range locks {
				kit.Lock(t, owner, m)
				require.True(t, kit.TryLock(t, owner, m))
				kit.Unlock(t, owner, m)
			}
			require.Equal(t, "1", kit.HashOf(t, client, "lock")[kit.HoldersOf(t, s, "lock")[0].ID], "Redis sees one")
		})
		require.EqualValues(t, 1, cost.acquired, shape)
		require.Zero(t, cost.released, shape)
		require.LessOrEqual(t, cost.scripts, int64(2), "%s: one acquire, and the inspection", shape)
		cost = trafficOf(server, func() {
			for i, m := range locks {
				require.False(t, kit.TryLock(t, kit.Background, other), "%s: still locked %d times", shape, len(locks)-i)
				require.NoError(t, m.Err(), shape)
				kit.Unlock(t, owner, m)
			}
		})
		require.EqualValues(t, 1, cost.released, shape)
		require.ErrorIs(t, locks[0].Unlock(owner), relock.ErrNotHeld, shape)
		require.True(t, kit.TryLock(t, kit.Background, other), shape)
		kit.Unlock(t, kit.Background, other)
	}
}

func TestReentryKeepsDoneOpen(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, owner, m)
		done, token := m.Done(), m.FencingToken()
		kit.Lock(t, owner, m)
		require.Equal(t, token, m.FencingToken(), "the hold is the same")
		kit.Unlock(t, owner, m)
		require.False(t, kit.IsClosed(done))
		kit.Unlock(t, owner, m)
		require.True(t, kit.IsClosed(done))
	})
}

func TestGoroutinesWithoutAnOwnerDoNotReenter(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		kit.Lock(t, kit.Background, m)
		second := kit.Async(func() error { return m.Lock(kit.Background) })
		kit.Queued(t, s, "lock", 1)
		kit.Unlock(t, kit.Background, m)
		require.NoError(t, kit.Receive(t, second, "the second goroutine to get in"))
		kit.Unlock(t, kit.Background, m)
	})
}

// Goroutines that share an owner do not exclude each other, also not when they
// waited for the lock together.
func TestWaitersOfOneOwnerEnterTogether(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const n = 8
		s := kit.NewSession(t, at)
		m, owner := s.Mutex("lock"), s.NewContext(kit.Background)
		for _, from := range []*relock.Mutex{s.Mutex("lock"), kit.NewSession(t, at).Mutex("lock")} {
			kit.Lock(t, kit.Background, from)
			got := make(chan error, n)
			for range n {
				go func() { got <- m.Lock(owner) }()
			}
			redistest.Eventually(t, kit.Soon, "the owner to wait", func() bool { return peek.Queued(s, "lock") >= n-1 })
			kit.Unlock(t, kit.Background, from)
			for range n {
				require.NoError(t, kit.Receive(t, got, "every goroutine of the owner to enter"))
			}
			for range n {
				require.NoError(t, m.Err())
				kit.Unlock(t, owner, m)
			}
			require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
		}
	})
}

func TestDerivedContextsKeepTheirOwner(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m, outer := s.Mutex("lock"), s.NewContext(kit.Background)
		derived, cancel := context.WithCancel(context.WithValue(outer, traffic{}, 1))
		defer cancel()
		kit.Lock(t, outer, m)
		require.True(t, kit.TryLock(t, derived, m))
		inner := s.NewContext(derived)
		require.False(t, kit.TryLock(t, inner, m), "the innermost owner counts")
		kit.Unlock(t, outer, m)
		kit.Unlock(t, derived, m)
		require.True(t, kit.TryLock(t, inner, m))
		require.False(t, kit.TryLock(t, derived, m))
		kit.Unlock(t, inner, m)
	})
}

func TestOwnersOfAnotherSessionAreHonoured(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, minter := kit.NewSession(t, at), kit.NewSession(t, at)
		m, owner := s.Mutex("lock"), minter.NewContext(kit.Background)
		from, ok := relock.FromContext(owner)
		require.True(t, ok)
		require.Same(t, minter, from)
		kit.Lock(t, owner, m)
		require.True(t, kit.TryLock(t, owner, s.Mutex("lock")))
		require.False(t, kit.TryLock(t, owner, minter.Mutex("lock")), "the hold is of another session")
		kit.Unlock(t, owner, m)
		kit.Unlock(t, owner, m)
		require.True(t, kit.TryLock(t, owner, minter.Mutex("lock")))
	})
}

func TestFromContextWithoutAnOwner(t *testing.T) {
	s, ok := relock.FromContext(kit.Background)
	require.False(t, ok)
	require.Nil(t, s)
}
