package relocktest_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

func TestHoldIsRenewedAllTheTime(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		start := time.Now()
		w.hold()
		require.Zero(t, time.Since(start), "without a delay nothing takes time")
		time.Sleep(5 * time.Minute)
		require.NoError(t, w.lock.Err())
		if w.exclusive() {
			ok, err := w.other.TryLock(background)
			require.NoError(t, err)
			require.False(t, ok)
		}
		require.NoError(t, w.lock.Unlock(background))
		require.Empty(t, w.keys())
	})
}

// The messages of a partition are delivered when it ends. Those that ended others' waits and
// holds meanwhile harm nobody.
func TestPartitionedHoldIsLostAtItsDeadline(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		time.Sleep(renew + time.Second) // the last renewal is a second ago
		heal := w.each(func(r *relocktest.Redis, s *relock.Session) func() { return r.Partition(s) })
		require.Equal(t, told-time.Second, w.ends())
		// In Redis the lease lasts a little longer.
		start := time.Now()
		require.NoError(t, w.other.Lock(background))
		if w.exclusive() {
			require.GreaterOrEqual(t, time.Since(start), lease-told)
			require.Less(t, time.Since(start), time.Second)
		}
		heal()
		heal()
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
			for i, r := range w.redis {
				r.Delay(w.s[i], delay)
				r.Lose(w.names[0])
			}
			require.Equal(t, delay, w.ends())
			require.ErrorIs(t, w.lock.Unlock(background), relock.ErrLost)
			time.Sleep(lease) // what the background has to do
			require.Empty(t, w.keys())
		})
	}
}

func TestLocksGoAroundInRoundTrips(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		const delay = 70 * time.Millisecond
		w.hold() // from now on the server knows the scripts
		require.NoError(t, w.lock.Unlock(background))
		for i, r := range w.redis {
			r.Delay(w.s[i], delay)
		}
		for range 3 {
			start := time.Now()
			w.hold()
			require.Equal(t, 2*delay, time.Since(start))
			start = time.Now()
			require.NoError(t, w.lock.Unlock(background))
			require.LessOrEqual(t, time.Since(start), 2*delay)
		}
	})
}

func TestSomebodyElseHoldsAnyLock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		release := w.each(func(r *relocktest.Redis, _ *relock.Session) func() { return r.Hold(w.names[0]) })
		ok, err := w.lock.TryLock(background)
		require.NoError(t, err)
		require.False(t, ok)
		const later = 100 * time.Second
		time.AfterFunc(later, release)
		start := time.Now()
		w.hold()
		if len(w.redis) == 1 { // a Redlock's pause is jittered
			require.Equal(t, later, time.Since(start))
		}
		release()
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
		w.each(func(r *relocktest.Redis, s *relock.Session) func() { return r.Partition(s) })
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
