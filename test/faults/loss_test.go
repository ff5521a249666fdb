package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestLossIsReportedByTheDeadlineWhateverHappensToRedis(t *testing.T) {
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
		began, watch := time.Now(), kit.StartWatch()
		deadline := kit.WatchLoss(t, a)
		require.LessOrEqual(t, deadline.Sub(began), lease)
		err := kit.Receive(t, result, "Do to end while Redis is out of reach")
		require.Less(t, time.Since(deadline)-watch.Held(), 2*kit.Slack, "Do's return after the deadline")
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

func TestLateUnlockOfALostHoldDoesNotDisturbTheNextHolder(t *testing.T) {
	const lease = 700 * time.Millisecond
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := kit.NewSession(t, p, relock.WithLease(lease)).Mutex("it")
		b := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
		kit.Lock(t, kit.Background, a)
		begin()
		kit.WatchLoss(t, a)
		heal()
		kit.Lock(t, kit.Background, b)
		held := holderID(t, s, "it")
		unlockIsLost(t, a)
		require.False(t, tryLockThrough(t, a))
		require.Equal(t, held, holderID(t, s, "it"))
		require.NoError(t, b.Err())
		kit.Unlock(t, kit.Background, b)
		goesOn(t, a, b)
	})
}

func TestUnlockReturnsByTheDeadlineWhileRedisIsOutOfReach(t *testing.T) {
	const lease = 1500 * time.Millisecond
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		a := kit.NewSession(t, p, relock.WithLease(lease)).Mutex("it")
		b := kit.NewSession(t, s, relock.WithLease(lease)).Mutex("it")
		kit.Lock(t, kit.Background, a)
		begin()
		deadline, ok := a.Deadline()
		require.True(t, ok)
		watch := kit.StartWatch()
		err := kit.Receive(t, kit.Async(func() error { return a.Unlock(kit.Background) }), "Unlock")
		require.Less(t, time.Since(deadline)-watch.Held(), kit.Slack, "Unlock's return after the deadline")
		require.NoError(t, err, "the hold was certain when Unlock was called")
		require.ErrorIs(t, a.Err(), relock.ErrNotHeld)
		heal()
		freed(t, s, "it", lease+time.Second)
		goesOn(t, b, a)
	})
}

func TestLockReturnsWithItsContextWhileRedisIsOutOfReach(t *testing.T) {
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		m := kit.NewSession(t, p).Mutex("it")
		goesOn(t, m)
		begin()
		ctx, cancel := context.WithTimeout(kit.Background, 300*time.Millisecond)
		defer cancel()
		watch := kit.StartWatch()
		err := m.Lock(ctx)
		require.Less(t, watch.Took(), 300*time.Millisecond+kit.Slack)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ok, err := m.TryLock(ctx)
		require.False(t, ok)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		heal()
		goesOn(t, m)
	})
}

func TestOutageShorterThanTheLeaseLosesNothing(t *testing.T) {
	const lease = 3 * time.Second
	kit.EachOutage(t, func(t *testing.T, s *redistest.Server, p *redistest.Proxy, begin, heal func()) {
		m := kit.NewSession(t, p, relock.WithLease(lease)).Mutex("it")
		kit.Lock(t, kit.Background, m)
		done, token := m.Done(), m.FencingToken()
		for range 2 {
			begin()
			time.Sleep(lease / 3)
			heal()
			before, _ := m.Deadline()
			redistest.Eventually(t, kit.Soon, "a renewal", func() bool {
				d, ok := m.Deadline()
				return !ok || d.After(before.Add(lease/10))
			})
		}
		require.False(t, kit.IsClosed(done))
		require.NoError(t, m.Err())
		require.Equal(t, token, m.FencingToken())
		kit.Unlock(t, kit.Background, m)
		freed(t, s, "it", kit.Quickly)
	})
}
