package relock_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
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

// warmUp has the server know the scripts.
func warmUp(t testing.TB, s *relock.Session) {
	t.Helper()
	m := s.Mutex("warm-up")
	lock(t, background, m)
	unlock(t, background, m)
	holdersOf(t, s, "warm-up")
}

func TestReentryCostsOneAcquisition(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, client := newSession(t, server), newClient(t, server)
	warmUp(t, s)
	other := newSession(t, server).Mutex("lock")
	owner := s.NewContext(background)
	shapes := map[string][]*relock.Mutex{"values": {s.Mutex("lock"), s.Mutex("lock"), s.Mutex("lock")}}
	one := s.Mutex("lock")
	shapes["one value"] = []*relock.Mutex{one, one, one}
	for shape, locks := range shapes {
		cost := trafficOf(server, func() {
			for _, m := range locks {
				lock(t, owner, m)
				require.True(t, tryLock(t, owner, m))
				unlock(t, owner, m)
			}
			require.Equal(t, "1", hashOf(t, client, "lock")[holdersOf(t, s, "lock")[0].ID], "Redis sees one")
		})
		require.EqualValues(t, 1, cost.acquired, shape)
		require.Zero(t, cost.released, shape)
		require.LessOrEqual(t, cost.scripts, int64(2), "%s: one acquire, and the inspection", shape)
		cost = trafficOf(server, func() {
			for i, m := range locks {
				require.False(t, tryLock(t, background, other), "%s: still locked %d times", shape, len(locks)-i)
				require.NoError(t, m.Err(), shape)
				unlock(t, owner, m)
			}
		})
		require.EqualValues(t, 1, cost.released, shape)
		require.ErrorIs(t, locks[0].Unlock(owner), relock.ErrNotHeld, shape)
		require.True(t, tryLock(t, background, other), shape)
		unlock(t, background, other)
	}
}

func TestReentryKeepsDoneOpen(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m, owner := s.Mutex("lock"), s.NewContext(background)
		lock(t, owner, m)
		done, token := m.Done(), m.FencingToken()
		lock(t, owner, m)
		require.Equal(t, token, m.FencingToken(), "the hold is the same")
		unlock(t, owner, m)
		require.False(t, isClosed(done))
		unlock(t, owner, m)
		require.True(t, isClosed(done))
	})
}

func TestGoroutinesWithoutAnOwnerDoNotReenter(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m := s.Mutex("lock")
		lock(t, background, m)
		second := async(func() error { return m.Lock(background) })
		queued(t, s, "lock", 1)
		unlock(t, background, m)
		require.NoError(t, receive(t, second, "the second goroutine to get in"))
		unlock(t, background, m)
	})
}

// Goroutines that share an owner do not exclude each other, also not when they
// waited for the lock together.
func TestWaitersOfOneOwnerEnterTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		const n = 8
		s := newSession(t, at)
		m, owner := s.Mutex("lock"), s.NewContext(background)
		for _, from := range []*relock.Mutex{s.Mutex("lock"), newSession(t, at).Mutex("lock")} {
			lock(t, background, from)
			got := make(chan error, n)
			for range n {
				go func() { got <- m.Lock(owner) }()
			}
			redistest.Eventually(t, soon, "the owner to wait", func() bool { return peek.Queued(s, "lock") >= n-1 })
			unlock(t, background, from)
			for range n {
				require.NoError(t, receive(t, got, "every goroutine of the owner to enter"))
			}
			for range n {
				require.NoError(t, m.Err())
				unlock(t, owner, m)
			}
			require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
		}
	})
}

func TestDerivedContextsKeepTheirOwner(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m, outer := s.Mutex("lock"), s.NewContext(background)
		derived, cancel := context.WithCancel(context.WithValue(outer, traffic{}, 1))
		defer cancel()
		lock(t, outer, m)
		require.True(t, tryLock(t, derived, m))
		inner := s.NewContext(derived)
		require.False(t, tryLock(t, inner, m), "the innermost owner counts")
		unlock(t, outer, m)
		unlock(t, derived, m)
		require.True(t, tryLock(t, inner, m))
		require.False(t, tryLock(t, derived, m))
		unlock(t, inner, m)
	})
}

func TestOwnersOfAnotherSessionAreHonoured(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, minter := newSession(t, at), newSession(t, at)
		m, owner := s.Mutex("lock"), minter.NewContext(background)
		from, ok := relock.FromContext(owner)
		require.True(t, ok)
		require.Same(t, minter, from)
		lock(t, owner, m)
		require.True(t, tryLock(t, owner, s.Mutex("lock")))
		require.False(t, tryLock(t, owner, minter.Mutex("lock")), "the hold is of another session")
		unlock(t, owner, m)
		unlock(t, owner, m)
		require.True(t, tryLock(t, owner, minter.Mutex("lock")))
	})
}

func TestFromContextWithoutAnOwner(t *testing.T) {
	s, ok := relock.FromContext(background)
	require.False(t, ok)
	require.Nil(t, s)
}
