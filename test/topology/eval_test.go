package topology_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// In a cluster a guarded script uses keys of the lock's slot alone, on every node.
func TestEvalUsesTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	s := kit.SessionOn(t, c.Client(t))
	const countUp = "return redis.call('incr', KEYS[1])"
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		h, err := s.Mutex(name).Acquire(kit.Background)
		require.NoError(t, err)
		for want := range int64(3) {
			n, err := h.Eval(kit.Background, countUp, []string{"{" + name + "}:count"}, nil).AsInt64()
			require.NoError(t, err)
			require.Equal(t, want+1, n)
		}
		err = h.Eval(kit.Background, countUp, []string{"elsewhere"}, nil).Error()
		require.ErrorIs(t, err, relock.ErrOption)
		require.ErrorContains(t, err, `"elsewhere" is in another slot`)
		require.NoError(t, h.Unlock(kit.Background))
	}
}
