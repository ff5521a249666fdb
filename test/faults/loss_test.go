package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestLossIsReportedWhateverHappensToRedis(t *testing.T) {
	const lease = time.Second
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := kit.NewSession(t, p, relock.WithLease(lease)).Mutex("it")
		b := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")

		entered := make(chan struct{})
		var cause error
		result := kit.Async(func() error {
			return relock.Do(kit.Background, a, func(ctx context.Context) error {
				close(entered)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		})
		kit.Receive(t, entered, "the lock")
		token := a.FencingToken()
		begin()
		err := kit.Receive(t, result, "Do to end while Redis is out of reach")
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, cause, relock.ErrLost)
		require.ErrorIs(t, a.Err(), relock.ErrLost)
		heal()

		kit.Lock(t, kit.Background, b)
		held := holderID(t, s, "it")
		require.Greater(t, b.FencingToken(), token)
		require.ErrorIs(t, a.Unlock(kit.Background), relock.ErrNotHeld)
		require.False(t, tryLockThrough(t, a)) // the connection works, and what was under way has arrived
		require.Equal(t, held, holderID(t, s, "it"))
		require.NoError(t, b.Err())
		kit.Unlock(t, kit.Background, b)
		goesOn(t, a, b)
		require.LessOrEqual(t, p.Connections(), 3, "the shared one, the subscriptions, and one that is on its way out")
	})
}

// tryLockThrough tries to lock until Redis has answered.
func tryLockThrough(t testing.TB, m *relock.Mutex) (ok bool) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "an answer of Redis", func() bool {
		var err error
		ok, err = m.TryLock(kit.Background)
		return err == nil
	})
	return ok
}

func TestCallsEndWhileRedisIsOutOfReach(t *testing.T) {
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		session := kit.NewSession(t, p)
		held, m := session.Mutex("held"), session.Mutex("it")
		goesOn(t, m)
		kit.Lock(t, kit.Background, held)
		begin()
		ctx, cancel := context.WithTimeout(kit.Background, 300*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded)
		ok, err := m.TryLock(ctx)
		require.False(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, held.Unlock(kit.Background), "the hold was certain when Unlock was called")
		require.ErrorIs(t, held.Err(), relock.ErrNotHeld)
		heal()
		freed(t, s, "held")
		goesOn(t, m, held)
	})
}

// More calls than the client's queue has places for, on a Redis that hangs: each ends
// with its own context, Unlock with the lease, and afterwards nothing of them is left.
// A call that found the queue full waited for Redis, whatever its context said.
func TestCrowdOfCallsEndsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	const crowd, patience, lease = 3000, 500 * time.Millisecond, 2 * time.Second
	s := redistest.Start(t)
	session := kit.NewSession(t, s)
	client := kit.NewClient(t, s)
	short := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("short")
	fixed := session.Mutex("fixed", relock.WithFixedLease(lease))
	goesOn(t, session.Mutex("0"), short, fixed)
	kit.Lock(t, kit.Background, short)
	kit.Lock(t, kit.Background, fixed)
	require.NoError(t, s.Freeze())
	done := short.Done()
	unlocked := kit.Async(func() error { return fixed.Unlock(kit.Background) })
	err := kit.Together(crowd, func(i int) error {
		ctx, cancel := context.WithTimeout(kit.Background, patience)
		defer cancel()
		err := session.Mutex(fmt.Sprint(i)).Lock(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("call %d: %w", i, err)
		}
		return nil
	})
	require.NoError(t, err)
	kit.Receive(t, done, "the loss")
	unlockIsLost(t, short)
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	require.NoError(t, s.Thaw())
	redistest.Eventually(t, kit.Quickly, "everything to be released", func() bool { return len(kit.Keys(t, client)) == 0 })
	goesOn(t, session.Mutex("0"), session.Mutex("1"), short, fixed)
}
