package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// The claim of a FairMutex counts from the waiter's last probe, and is as long as another
// waiter's lease where that waiter found the lock free. A grant with hardly anything left was
// accepted, and lost before it could be renewed although nothing was wrong.
func TestFairGrantLastsUntilItIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		holder, far := redis.Session(), redis.Session()
		near := redis.Session(relock.WithLease(time.Second))
		redis.Delay(far, 20*time.Millisecond)
		for held := time.Second; held < 3*time.Second; held += 23 * time.Millisecond {
			m := holder.Mutex("a") // whose release grants nothing: waiters look
			require.NoError(t, m.Lock(background))
			first := far.FairMutex("a")
			locked := begin(background, first)
			time.Sleep(500 * time.Millisecond)
			ctx, cancel := context.WithCancel(background)
			second := near.FairMutex("a")
			go func() { _ = second.Lock(ctx) }()
			time.Sleep(held)
			require.NoError(t, m.Unlock(background))
			require.NoError(t, <-locked)
			time.Sleep(2 * time.Second)
			require.NoError(t, first.Err(), "lost, granted after %v", held)
			cancel()
			synctest.Wait()
			require.NoError(t, first.Unlock(background))
			time.Sleep(time.Second)
		}
	})
}

// Redis has lost its data, and its clock has stepped back, so that the token of a new grant is
// before that of a hold of the same process, which is not known to be lost yet. A goroutine asked
// on and on, without a pause.
func TestFairMutexWaitsForTheNewsThatRedisLostTheHoldAndTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		s := redis.Session()
		first, next := s.FairMutex("a"), s.FairMutex("a")
		require.NoError(t, first.Lock(background))
		redis.Restart(false)
		redis.StepClock(-time.Hour)
		time.Sleep(time.Second)
		start := time.Now()
		ok, err := next.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, time.Since(start))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		start = time.Now()
		require.ErrorIs(t, next.Lock(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))

		require.NoError(t, next.Lock(background))
		require.ErrorIs(t, first.Err(), relock.ErrLost)
		require.LessOrEqual(t, time.Since(start), lease/3)
		require.NoError(t, next.Unlock(background))
	})
}
