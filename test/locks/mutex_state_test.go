package locks_test

import (
	"strings"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
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
