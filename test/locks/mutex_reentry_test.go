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

// Goroutines that share an owner do not exclude each other, also not when they
// waited for the lock together. What each of them has queued for is given back.
func TestWaitersOfOneOwnerEnterTogether(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			const n = 8
			s := kit.NewSession(t, at)
			l, owner := k.Of(s), s.NewContext(kit.Background)
			for _, from := range []relock.Locker{k.Holder(s), k.Holder(kit.NewSession(t, at))} {
				kit.Lock(t, kit.Background, from)
				got := make(chan error, n)
				for range n {
					go func() { got <- l.Lock(owner) }()
				}
				time.Sleep(5 * time.Millisecond) // most of them wait
				kit.Unlock(t, kit.Background, from)
				for range n {
					require.NoError(t, kit.Receive(t, got, "every goroutine of the owner to enter"))
				}
				for range n {
					require.NoError(t, l.Err())
					kit.Unlock(t, owner, l)
				}
				require.ErrorIs(t, l.Unlock(owner), relock.ErrNotHeld)
				kit.GoneQuickly(t, kit.NewClient(t, at), "lock")
			}
		})
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
