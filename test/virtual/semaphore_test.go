package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/relocktest"
)

// onSemaphore runs f in a bubble with a Redis in memory.
func onSemaphore(t *testing.T, f func(t *testing.T, r *relocktest.Redis)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, relocktest.New(t)) })
}

// Permits of a process that is gone are free within a lease, all at once, for those that wait and for those that come.
func TestPermitsOfTheDeadAreFreeWithinALease(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		const n = 50
		dead, s := r.Session(), r.Session()
		sem := dead.Semaphore("sem", n)
		for range n {
			require.NoError(t, sem.Lock(background))
		}
		r.Partition(dead)
		start := time.Now()
		waits := make(chan int, n-10)
		for range n - 10 {
			go func() {
				own := kit.NewHoldLocker(s.Semaphore("sem", n))
				require.NoError(t, own.Lock(background))
				waits <- own.Slot()
			}()
		}
		slots := make(map[int]bool)
		for range n - 10 {
			slots[<-waits] = true
		}
		require.Len(t, slots, n-10)
		require.InDelta(t, lease, time.Since(start), float64(100*time.Millisecond))
		require.ErrorIs(t, sem.Err(), relock.ErrExpired)
		for slot := n - 10; slot < n; slot++ {
			own := kit.NewHoldLocker(s.Semaphore("sem", n))
			ok, err := own.TryLock(background)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, slot, own.Slot())
		}
	})
}

// A frozen process that waits costs the others one claim of each permit that is granted to it, and no more.
func TestFrozenWaitersCostOneClaimOfTheirPermits(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		holder, frozen, s := r.Session(), r.Session(), r.Session()
		sem := holder.Semaphore("sem", 2)
		require.NoError(t, sem.Lock(background))
		require.NoError(t, sem.Lock(background))
		for range 20 {
			go func() { _ = frozen.Semaphore("sem", 2).Lock(background) }()
		}
		time.Sleep(time.Second)
		heal := r.Partition(frozen)
		got := make(chan error, 2)
		for range 2 {
			go func() { got <- s.Semaphore("sem", 2).Lock(background) }()
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		require.NoError(t, sem.Unlock(background))
		require.NoError(t, sem.Unlock(background))
		require.NoError(t, <-got)
		require.NoError(t, <-got)
		require.Less(t, time.Since(start), claim+2*time.Second)
		heal()
		require.NoError(t, frozen.Close(background))
	})
}

// Each process goes by its own limit: a smaller one takes effect as holds end, a larger one at once, but nobody
// overtakes.
func TestLimitsOfASemaphoreMayDiffer(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		old, young := r.Session(), r.Session()
		before := old.Semaphore("sem", 4)
		for range 4 {
			require.NoError(t, before.Lock(background))
		}
		after := kit.NewHoldLocker(young.Semaphore("sem", 2))
		ended := make(chan error, 1)
		start := time.Now()
		go func() { ended <- after.Lock(background) }()
		for range 3 {
			time.Sleep(time.Second)
			ok, err := before.TryLock(background)
			require.NoError(t, err)
			require.False(t, ok, "it overtakes")
			require.NoError(t, before.Unlock(background))
		}
		require.NoError(t, <-ended)
		require.Equal(t, 3*time.Second, time.Since(start).Truncate(100*time.Millisecond))
		st, err := young.Inspect(background, "sem")
		require.NoError(t, err)
		require.Equal(t, 2, st.Permits)
		require.Equal(t, 1, after.Slot(), "slots are of its own limit")
		ok, err := after.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		ok, err = before.TryLock(background)
		require.NoError(t, err)
		require.True(t, ok, "it may have four")
	})
}

// A waiter for fewer permits than others may have, whose process is gone, holds these up for a grant timeout and a poll at
// most.
func TestDeadWaiterWithASmallerLimitStopsNobody(t *testing.T) {
	for _, how := range []string{"frozen", "killed"} {
		t.Run(how, func(t *testing.T) {
			onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
				s, dead := r.Session(), r.Session()
				sem := s.Semaphore("sem", 5)
				for range 3 {
					require.NoError(t, sem.Lock(background))
				}
				go func() { _ = dead.Semaphore("sem", 2).Lock(background) }()
				time.Sleep(time.Second)
				heal := r.Partition(dead)
				if how == "killed" {
					r.Disconnect(dead)
				}
				ctx, stop := context.WithTimeout(background, claim+claim/3)
				defer stop()
				require.NoError(t, sem.Lock(ctx))
				ok, err := sem.TryLock(background)
				require.NoError(t, err)
				require.True(t, ok)
				heal()
				require.NoError(t, dead.Close(background))
			})
		})
	}
}

// A step of the server's clock by less than the lease loses nothing, and gives nobody too much.
func TestSemaphoreSurvivesAClockThatSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -6 * time.Second, 6 * time.Second, lease / 2} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
				s, other := r.Session(), r.Session()
				sem := s.Semaphore("sem", 2)
				require.NoError(t, sem.Lock(background))
				require.NoError(t, sem.Lock(background))
				got := make(chan error, 1)
				next := kit.NewHoldLocker(other.Semaphore("sem", 2))
				go func() { got <- next.Lock(background) }()
				time.Sleep(time.Second)
				r.StepClock(step)
				time.Sleep(2 * lease)
				require.NoError(t, sem.Err())
				require.Empty(t, got)
				require.NoError(t, sem.Unlock(background))
				require.NoError(t, <-got)
				require.Equal(t, 1, next.Slot())
				time.Sleep(2 * lease)
				require.NoError(t, next.Err())
				require.NoError(t, next.Unlock(background))
				require.NoError(t, sem.Unlock(background))
			})
		})
	}
}

// Hold and Lose of the test kit are of whatever has the name.
func TestLoseIsForSemaphoresToo(t *testing.T) {
	onSemaphore(t, func(t *testing.T, r *relocktest.Redis) {
		s := r.Session()
		sem := s.Semaphore("sem", 2)
		require.NoError(t, sem.Lock(background))
		r.Lose("sem")
		synctest.Wait()
		require.ErrorIs(t, sem.Err(), relock.ErrForced)
		require.ErrorIs(t, sem.Unlock(background), relock.ErrForced)
		release := r.Hold("sem")
		require.ErrorIs(t, s.Semaphore("sem", 2).Lock(background), relock.ErrNotLock)
		release()
		require.NoError(t, sem.Lock(background))
	})
}
