package locks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// wantNothing checks what a value tells that holds nothing.
func wantNothing(t testing.TB, m *relock.Mutex) {
	t.Helper()
	require.ErrorIs(t, m.Err(), relock.ErrNotHeld)
	require.NotErrorIs(t, m.Err(), relock.ErrLost)
	require.True(t, kit.IsClosed(m.Done()))
	require.Zero(t, m.FencingToken())
	at, ok := m.Deadline()
	require.False(t, ok)
	require.Zero(t, at)
}

func TestMutexDescribesItsHold(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const lease = 30 * time.Second
		s := kit.NewSession(t, at, relock.WithLease(lease))
		m := s.Mutex("some lock")
		require.Equal(t, "some lock", m.Name())
		wantNothing(t, m)
		for range 3 {
			before := time.Now()
			kit.Lock(t, kit.Background, m)
			after := time.Now()
			done := m.Done()
			require.NoError(t, m.Err())
			require.False(t, kit.IsClosed(done))
			require.Equal(t, done, m.Done(), "the channel stays the same")
			require.Positive(t, m.FencingToken())
			until, ok := m.Deadline()
			require.True(t, ok)
			require.True(t, until.After(before.Add(lease*9/10)), "%v", until.Sub(before))
			require.True(t, until.Before(after.Add(lease)), "less a margin, since before the request was sent: %v", until.Sub(after))
			wantNothing(t, s.Mutex("some lock")) // another value has taken nothing

			kit.Unlock(t, kit.Background, m)
			require.True(t, kit.IsClosed(done))
			wantNothing(t, m)
		}
		kit.Lock(t, kit.Background, m)
		token := m.FencingToken()
		forceUnlock(t, s, m)
		require.Equal(t, token, m.FencingToken(), "kept, to be compared")
		require.True(t, kit.IsClosed(m.Done()))
		_, ok := m.Deadline()
		require.False(t, ok)
		require.ErrorIs(t, m.Unlock(kit.Background), relock.ErrLost)
		require.ErrorIs(t, m.Err(), relock.ErrLost, "the latest hold is the lost one")
		kit.Lock(t, kit.Background, m)
		require.NoError(t, m.Err())
		require.Greater(t, m.FencingToken(), token)
		kit.Unlock(t, kit.Background, m)
		wantNothing(t, m)
	})
}

func TestDeadlineMovesWithTheRenewals(t *testing.T) {
	t.Parallel()
	m := kit.NewSession(t, redistest.Start(t), relock.WithLease(time.Second)).Mutex("lock")
	kit.Lock(t, kit.Background, m)
	last, _ := m.Deadline()
	for range 2 {
		redistest.Eventually(t, kit.Soon, "a renewal", func() bool {
			at, ok := m.Deadline()
			return ok && at.Sub(last) > 100*time.Millisecond
		})
		last, _ = m.Deadline()
	}
	kit.Unlock(t, kit.Background, m)
}

// The state of a value follows its latest hold, not those of others.
func TestTheLatestHoldOfAValueCounts(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("lock")
		a, b := s.NewContext(kit.Background), s.NewContext(kit.Background)
		kit.Lock(t, a, m)
		first := m.Done()
		next := kit.Async(func() error { return m.Lock(b) })
		kit.Queued(t, s, "lock", 1)
		kit.Unlock(t, a, m)
		require.NoError(t, kit.Receive(t, next, "the next owner"))
		require.True(t, kit.IsClosed(first))
		require.NoError(t, m.Err())
		require.False(t, kit.IsClosed(m.Done()))
		kit.Unlock(t, b, m)
		wantNothing(t, m)
	})
}

func TestEveryErrorNamesThePackageAndTheLock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		m := s.Mutex("a lock")
		_, errTry := m.TryLock(kit.Cancelled())
		_, errForce := s.ForceUnlock(kit.Cancelled(), "a lock")
		_, errInspect := s.Inspect(kit.Cancelled(), "a lock")
		errs := []error{m.Err(), m.Unlock(kit.Background), m.Lock(kit.Cancelled()), errTry, errForce, errInspect}
		kit.Lock(t, kit.Background, m)
		forceUnlock(t, s, m)
		errs = append(errs, m.Err(), m.Unlock(kit.Background))
		require.NoError(t, s.Close(kit.Background))
		errs = append(errs, m.Lock(kit.Background))
		for i, err := range errs {
			require.Error(t, err, "%d", i)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.Contains(t, err.Error(), `"a lock"`)
			require.Equal(t, 1, strings.Count(err.Error(), "relock: "), err.Error())
		}
	})
}
