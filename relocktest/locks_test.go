package relocktest_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// The messages of a partition are delivered when it ends. Those that ended others' waits and
// holds meanwhile harm nobody.
func TestPartitionedHoldIsLostAtItsDeadline(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		time.Sleep(renew + time.Second) // the last renewal is a second ago
		var heals []func()
		w.each(func(r *relocktest.Redis, s *relock.Session) { heals = append(heals, r.Partition(s)) })
		require.Equal(t, told-time.Second, w.ends())
		// In Redis the lease lasts a little longer.
		start := time.Now()
		require.NoError(t, w.other.Lock(background))
		if w.exclusive() {
			require.GreaterOrEqual(t, time.Since(start), lease-told)
			require.Less(t, time.Since(start), time.Second)
		}
		for _, heal := range slices.Concat(heals, heals) { // the second time it does nothing
			heal()
		}
		time.Sleep(time.Second) // the release of the lost hold arrives beside the calls below
		require.ErrorIs(t, w.lock.Unlock(background), relock.ErrLost)
		require.NoError(t, w.other.Err())
		require.NoError(t, w.other.Unlock(background))
		w.hold()
		require.NoError(t, w.lock.Unlock(background))
		require.Empty(t, w.keys())
	})
}

// At once without a delay: the message that tells of a loss takes as long as any other.
func TestLossIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 70 * time.Millisecond} {
		onEach(t, func(t *testing.T, w *world) {
			w.hold()
			w.each(func(r *relocktest.Redis, s *relock.Session) {
				r.Delay(s, delay)
				r.Lose(w.names[0])
			})
			require.Equal(t, delay, w.ends())
			require.ErrorIs(t, w.lock.Unlock(background), relock.ErrLost)
			time.Sleep(lease) // what the background has to do
			require.Empty(t, w.keys())
		})
	}
}

func TestSomebodyElseHoldsAnyLock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		var releases []func()
		w.each(func(r *relocktest.Redis, _ *relock.Session) { releases = append(releases, r.Hold(w.names[0])) })
		ok, err := w.lock.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		const later = 100 * time.Second
		for _, release := range releases {
			time.AfterFunc(later, release)
		}
		start := time.Now()
		w.hold()
		if len(w.redis) == 1 { // a Redlock's pause is jittered
			require.Equal(t, later, time.Since(start))
		}
		releases[0]() // the second time it does nothing
		require.NoError(t, w.lock.Err())
		require.NoError(t, w.lock.Unlock(background))
		require.Empty(t, w.keys())
	})
}

// A slow machine is no suspend: what takes real time takes no virtual time.
func TestRealTimeIsNotCounted(t *testing.T) {
	var past atomic.Bool
	time.AfterFunc(time.Second, func() { past.Store(true) }) // outside: real time
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		for !past.Load() {
			runtime.Gosched()
		}
		w.each(func(r *relocktest.Redis, s *relock.Session) { r.Partition(s) })
		require.Equal(t, told, w.ends())
	})
}

// Sessions share nothing that belongs to a bubble.
func TestBubblesAndRealTimeAlternate(t *testing.T) {
	t.Parallel()
	use := func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		for _, l := range []relock.Locker{s.Mutex("a"), s.FairMutex("b"), s.RWMutex("c"), s.RWMutex("d").RLocker()} {
			for range 10 {
				require.NoError(t, l.Lock(background))
				require.NoError(t, l.Unlock(background))
			}
		}
	}
	use(t)
	synctest.Test(t, use)
	synctest.Test(t, use)
	use(t)
}

// The server counts the lease by its clock, and the holder notices when it renews.
func TestServersClockAheadEndsLeasesEarly(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		w.each(func(r *relocktest.Redis, _ *relock.Session) { r.StepClock(lease) })
		require.NotContains(t, w.keys(), w.names[0])
		ok, err := w.other.TryLock(background)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, renew, w.ends())
	})
}

func TestServersClockBackProlongsLeases(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		w.each(func(r *relocktest.Redis, s *relock.Session) {
			r.Partition(s)
			r.StepClock(-time.Minute)
		})
		require.Equal(t, told, w.ends()) // the holder does not ask the server for the time
		time.Sleep(time.Minute)
		require.Contains(t, w.keys(), w.names[0])
		time.Sleep(lease)
		require.NotContains(t, w.keys(), w.names[0])
	})
}

// Somebody else's permits count as any, under the limit of the one who asks.
func TestSomebodyElseHoldsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		release := r.HoldPermits("a", 2)
		ok, err := s.Semaphore("a", 2).TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		hold, err := s.Semaphore("a", 3).TryAcquire(background)
		require.NoError(t, err)
		require.Equal(t, 2, hold.Slot())
		require.NoError(t, hold.Unlock(background))
		time.AfterFunc(time.Hour, release)
		require.NoError(t, s.Semaphore("a", 1).Lock(background))
	})
}
