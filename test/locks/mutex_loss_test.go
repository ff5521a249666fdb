package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lostIn waits until m is lost, and looks at all that tells of it.
func lostIn(t testing.TB, within time.Duration, m kit.FencedLocker) {
	t.Helper()
	done := m.Done()
	redistest.Eventually(t, within, "Done to be closed", func() bool { return kit.IsClosed(done) })
	require.ErrorIs(t, m.Err(), relock.ErrLost)
	_, certain := m.Deadline()
	require.False(t, certain)
	require.NotZero(t, m.FencingToken(), "a token to compare with stays after a loss")
}

func TestForceUnlockOfAFreeLockIsFalse(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		was, err := kit.NewSession(t, at).ForceUnlock(kit.Background, "lock")
		require.NoError(t, err)
		require.False(t, was)
	})
}

// A message about a hold that is over must not end the one after it.
func TestForceUnlockEndsOnlyTheHoldThatItFound(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		m := s.Mutex("lock")
		kit.Lock(t, kit.Background, m)
		old := kit.HoldersOf(t, s, "lock")[0].ID
		kit.Unlock(t, kit.Background, m)
		kit.Lock(t, kit.Background, m)
		tell := func(message string) {
			b := client.B().Publish().Channel("relock_session:" + s.ID()).Message(message).Build()
			require.NoError(t, client.Do(kit.Background, b).Error())
		}
		tell("lost " + old + " lock")
		for _, nonsense := range []string{"", "lost", "lost ", "lost lock", "0", "lost " + old + "0 other"} {
			tell(nonsense)
		}
		forced := s.Mutex("marker") // its loss says that the messages before have arrived
		kit.Lock(t, kit.Background, forced)
		forceUnlock(t, s, forced)
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
	})
}
