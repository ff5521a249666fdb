package redistest_test

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// setEverywhere writes a key and waits until two replicas have it. WAIT speaks of
// the writes of its own connection, so the two commands must share one.
func setEverywhere(t testing.TB, c rueidis.Client, key, value string) {
	t.Helper()
	results := c.DoMulti(t.Context(),
		c.B().Set().Key(key).Value(value).Build(),
		c.B().Wait().Numreplicas(2).Timeout(soon.Milliseconds()).Build())
	require.NoError(t, results[0].Error())
	n, err := results[1].AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
}

func TestReplicasFollowTheirPrimary(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 2)
	require.Len(t, replicas, 2)
	setEverywhere(t, primary.Client(t), "k", "v")
	for _, r := range replicas {
		require.Equal(t, "v", get(t, r, "k"))
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	c := s.Client(t)
	first := s.Primary()
	require.Same(t, s.Nodes()[0], first)
	setEverywhere(t, c, "k", "v")

	second, err := s.Failover()
	require.NoError(t, err)
	require.NotSame(t, first, second)

	second.Kill()
	third, err := s.WaitFailover(second)
	require.NoError(t, err)
	require.NotSame(t, second, third)
	require.Equal(t, "v", get(t, third, "k"))
	redistest.Eventually(t, 3*soon, "the client to have found the new primary", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		return c.Do(ctx, c.B().Set().Key("k").Value("w").Build()).Error() == nil
	})
	require.Equal(t, "w", get(t, third, "k"))
	require.NoError(t, second.Restart())
	redistest.Eventually(t, 3*soon, "the old primary to follow the new one", func() bool {
		return second.Info("replication")["master_link_status"] == "up"
	})
}
