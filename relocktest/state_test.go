package relocktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

func TestDeletedLockIsLostAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		w.each(func(r *relocktest.Redis, _ *relock.Session) {
			for _, name := range w.names {
				r.Delete(name)
			}
		})
		require.NoError(t, w.lock.Err(), "nobody has told the holder")
		require.LessOrEqual(t, w.ends(), renew)
		require.ErrorIs(t, w.lock.Err(), relock.ErrGone)
		require.ErrorIs(t, w.lock.Unlock(background), relock.ErrGone)
	})
}

func TestForcedLockSaysSo(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		w.hold()
		w.each(func(r *relocktest.Redis, _ *relock.Session) { r.Lose(w.names[0]) })
		w.ends()
		require.ErrorIs(t, w.lock.Err(), relock.ErrForced)
	})
}

// What a session only keeps is no hold.
func TestHoldTakesAKeptLock(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := relocktest.New(t)
			s := r.Session()
			m := s.Mutex("a", relock.WithKeep(time.Hour))
			require.NoError(t, m.Lock(background))
			require.NoError(t, m.Unlock(background))
			r.Delay(s, delay)
			release := r.Hold("a")
			ok, err := m.TryLock(background)
			require.NoError(t, err)
			require.False(t, ok)
			time.Sleep(time.Second) // the attempt has left the queue
			release()
			ok, err = m.TryLock(background)
			require.NoError(t, err)
			require.True(t, ok)
		})
	}
}

// The application's commands go the way of the session's.
func TestClientOfASessionSharesItsFate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := relocktest.New(t)
		s := r.Session()
		client := r.ClientOf(s)
		set := func() error { // on the connection that is there: rueidis has several, and chooses by the key
			return client.Do(background, client.B().Arbitrary("SET", "k", "v").Build()).Error()
		}
		require.NoError(t, set())
		r.Delay(s, time.Second)
		start := time.Now()
		require.NoError(t, set())
		require.Equal(t, 2*time.Second, time.Since(start))
		r.Delay(s, 0)
		r.DropReplies(s, 1)
		require.Error(t, set())
	})
}
