package topology_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// In a cluster labels are in other slots than the locks.
func TestInspectFindsLabelsInOtherSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	other := kit.SessionOn(t, c.Client(t))
	client := c.Client(t)
	for range 20 {
		s := kit.SessionOn(t, client, relock.WithLabel("worker"))
		for _, name := range []string{"a", "b", "c", "d"} {
			kit.Lock(t, kit.Background, s.RWMutex(name).RLocker())
			st, err := other.Inspect(kit.Background, name)
			require.NoError(t, err)
			for _, h := range st.Holders {
				require.Equal(t, "worker", h.Label)
			}
		}
	}
}

// Who is not permitted to write or read labels has none.
func TestLocksWorkWithoutPermissionForLabels(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	admin(t, srv, "ACL", "SETUSER", "default", "resetkeys", "~lock*", "~relock_fence:*", "~relock_queue:*", "~relock_rwqueue:*")
	s := kit.NewSession(t, srv, relock.WithLabel("worker"))
	m := s.Mutex("lock")
	for range 3 {
		kit.Lock(t, kit.Background, m)
		st, err := s.Inspect(kit.Background, "lock")
		require.NoError(t, err)
		require.Len(t, st.Holders, 1)
		require.Empty(t, st.Holders[0].Label)
		kit.Unlock(t, kit.Background, m)
	}
}
