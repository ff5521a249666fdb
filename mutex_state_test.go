package relock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// wantNothing checks what a value tells that holds nothing.
func wantNothing(t testing.TB, m *relock.Mutex) {
	t.Helper()
	require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
	require.NotErrorIs(t, m.Err(), relock.ErrLost)
	require.True(t, isClosed(m.Done()))
	require.Zero(t, m.FencingToken())
	at, ok := m.Deadline()
	require.False(t, ok)
	require.Zero(t, at)
}

func TestWhatAMutexTellsOfItsHold(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		const lease = 30 * time.Second
		s := newSession(t, at, relock.WithWatchdog(lease))
		m := s.Mutex("some lock")
		require.Equal(t, "some lock", m.Name())
		wantNothing(t, m)
		for range 3 {
			before := time.Now()
			lock(t, background, m)
			after := time.Now()
			done := m.Done()
			require.NoError(t, m.Err())
			require.False(t, isClosed(done))
			require.Equal(t, done, m.Done(), "the channel stays the same")
			require.Positive(t, m.FencingToken())
			until, ok := m.Deadline()
			require.True(t, ok)
			require.True(t, until.After(before.Add(lease*9/10)), "%v", until.Sub(before))
			require.True(t, until.Before(after.Add(lease)), "less a margin, since before the request was sent: %v", until.Sub(after))
			wantNothing(t, s.Mutex("some lock")) // another value has taken nothing

			unlock(t, background, m)
			require.True(t, isClosed(done))
			wantNothing(t, m)
		}
		lock(t, background, m)
		token := m.FencingToken()
		forceUnlock(t, s, m)
		require.Equal(t, token, m.FencingToken(), "kept, to be compared")
		require.True(t, isClosed(m.Done()))
		_, ok := m.Deadline()
		require.False(t, ok)
		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, m.Err(), relock.ErrLost, "the latest hold is the lost one")
		lock(t, background, m)
		require.NoError(t, m.Err())
		require.Greater(t, m.FencingToken(), token)
		unlock(t, background, m)
		wantNothing(t, m)
	})
}

func TestDeadlineMovesWithTheRenewals(t *testing.T) {
	t.Parallel()
	m := newSession(t, redistest.Start(t), relock.WithWatchdog(time.Second)).Mutex("lock")
	lock(t, background, m)
	last, _ := m.Deadline()
	for range 2 {
		redistest.Eventually(t, soon, "a renewal", func() bool {
			at, ok := m.Deadline()
			return ok && at.Sub(last) > 100*time.Millisecond
		})
		last, _ = m.Deadline()
	}
	unlock(t, background, m)
}

// The state of a value follows its latest hold, not those of others.
func TestTheLatestHoldOfAValueCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m := s.Mutex("lock")
		a, b := s.NewContext(background), s.NewContext(background)
		lock(t, a, m)
		first := m.Done()
		next := async(func() error { return m.Lock(b) })
		queued(t, s, "lock", 1)
		unlock(t, a, m)
		require.NoError(t, receive(t, next, "the next owner"))
		require.True(t, isClosed(first))
		require.NoError(t, m.Err())
		require.False(t, isClosed(m.Done()))
		unlock(t, b, m)
		wantNothing(t, m)
	})
}

func TestEveryErrorNamesThePackageAndTheLock(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		m := s.Mutex("a lock")
		_, errTry := m.TryLock(cancelled())
		_, errForce := s.ForceUnlock(cancelled(), "a lock")
		_, errInspect := s.Inspect(cancelled(), "a lock")
		errs := []error{m.Err(), m.Unlock(background), m.Lock(cancelled()), errTry, errForce, errInspect}
		lock(t, background, m)
		forceUnlock(t, s, m)
		errs = append(errs, m.Err(), m.Unlock(background))
		require.NoError(t, s.Close(background))
		errs = append(errs, m.Lock(background))
		for i, err := range errs {
			require.Error(t, err, "%d", i)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.Contains(t, err.Error(), `"a lock"`)
			require.Equal(t, 1, strings.Count(err.Error(), "relock: "), err.Error())
		}
	})
}
