package relocktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// none is an undo that does nothing.
func none(f func(r *relocktest.Redis, s *relock.Session)) func(*relocktest.Redis, *relock.Session) func() {
	return func(r *relocktest.Redis, s *relock.Session) func() { f(r, s); return func() {} }
}

// Both the acquire and the release are executed and sent again.
func TestLostRepliesDoubleNothing(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3} {
		onEach(t, func(t *testing.T, w *world) {
			drop := none(func(r *relocktest.Redis, s *relock.Session) { r.DropReplies(s, n) })
			w.each(drop)
			w.hold()
			holders := 0
			for _, r := range w.redis {
				s := r.Session()
				for _, name := range w.names {
					state, err := s.Inspect(background, name)
					require.NoError(t, err)
					require.LessOrEqual(t, len(state.Holders), 1)
					holders += len(state.Holders)
				}
			}
			require.GreaterOrEqual(t, holders, len(w.redis)/2+len(w.names)) // of a Redlock a majority
			w.redis[0].DropReplies(w.s[0], n)
			require.NoError(t, w.lock.Unlock(background))
			time.Sleep(time.Second) // what the background has to do
			require.Empty(t, w.keys())
			require.NoError(t, w.other.Lock(background))
		})
	}
}

func TestHoldSurvivesDisconnectsAndRestartsWithData(t *testing.T) {
	t.Parallel()
	for _, fault := range []func(r *relocktest.Redis, s *relock.Session){
		func(r *relocktest.Redis, s *relock.Session) { r.Disconnect(s) },
		func(r *relocktest.Redis, _ *relock.Session) { r.Restart(true) },
	} {
		onEach(t, func(t *testing.T, w *world) {
			w.hold()
			for range 10 {
				w.each(none(fault))
				time.Sleep(lease)
			}
			require.NoError(t, w.lock.Err())
			require.NoError(t, w.lock.Unlock(background))
			require.Empty(t, w.keys())
		})
	}
}

// The renewal finds it.
func TestRestartWithoutDataIsToldByRenewal(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		time.Sleep(time.Second)
		w.each(none(func(r *relocktest.Redis, _ *relock.Session) { r.Restart(false) }))
		require.Empty(t, w.keys())
		require.Equal(t, renew-time.Second, w.ends())
		require.ErrorIs(t, w.lock.Unlock(background), relock.ErrLost)
	})
}

// A Redlock holds on to a majority, and takes again what one server has lost.
func TestRedlockSurvivesARestartWithoutDataOfOne(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		if len(w.redis) == 1 {
			return
		}
		w.hold()
		for _, r := range w.redis {
			r.Restart(false)
			time.Sleep(lease)
		}
		require.NoError(t, w.lock.Err())
		require.NoError(t, w.lock.Unlock(background))
	})
}

// The server counts the lease by its clock, and the holder notices when it renews.
func TestServersClockAheadEndsLeasesEarly(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		w.each(none(func(r *relocktest.Redis, _ *relock.Session) { r.StepClock(lease) }))
		require.True(t, w.unlocked())
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
		w.each(none(func(r *relocktest.Redis, s *relock.Session) {
			r.Partition(s)
			time.Sleep(time.Second)
			r.StepClock(-time.Minute)
		}))
		elapsed := time.Duration(len(w.redis)) * time.Second
		require.Equal(t, told-elapsed, w.ends()) // the holder does not ask the server for the time
		time.Sleep(time.Minute)
		require.False(t, w.unlocked())
		time.Sleep(lease)
		require.True(t, w.unlocked())
	})
}

func TestTokensFollowTheServersClock(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		m, ok := w.lock.(interface{ FencingToken() int64 })
		if !ok {
			return
		}
		w.hold()
		before := m.FencingToken()
		require.NoError(t, w.lock.Unlock(background))
		w.redis[0].StepClock(time.Hour)
		w.hold()
		ahead := time.Duration(m.FencingToken()-before) * time.Millisecond / 1024
		require.InDelta(t, time.Hour, ahead, float64(time.Second))
	})
}
