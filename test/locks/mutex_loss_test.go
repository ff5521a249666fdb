package locks_test

import (
	"testing"

	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

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
