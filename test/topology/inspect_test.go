package topology_test

import (
	"strings"
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
	log, err := srv.Do("ACL", "LOG", "100")
	require.NoError(t, err)
	require.LessOrEqual(t, len(log.([]any)), 4, "one write, and what Inspect reads")
}

// What docs/operating.md says of redis-cli: who holds a lock, for how long, how many wait, and
// whether the holder's process is there.
func TestLockIsSeenWithPlainCommands(t *testing.T) {
	server := redistest.Start(t)
	holder, waiter := kit.NewSession(t, server), kit.NewSession(t, server)
	require.NoError(t, holder.FairMutex("lock").Lock(kit.Background))
	got := make(chan error, 1)
	go func() { got <- waiter.FairMutex("lock").Lock(kit.Background) }()
	redistest.Eventually(t, kit.Soon, "a waiter in the queue", func() bool {
		n, err := server.Do("ZCARD", "relock_queue:{lock}")
		return n == int64(1) && err == nil
	})
	fields, err := server.Do("HGETALL", "lock")
	require.NoError(t, err)
	require.Len(t, fields, 2)
	session, number, _ := strings.Cut(fields.([]any)[0].(string), ":")
	require.Equal(t, holder.ID(), session)
	require.NotEmpty(t, number)
	ttl, err := server.Do("PTTL", "lock")
	require.NoError(t, err)
	require.Positive(t, ttl)
	label, err := server.Do("GET", "relock_session:{"+session+"}")
	require.NoError(t, err)
	require.Contains(t, label, "@")
	present := func() any {
		reply, err := server.Do("PUBSUB", "NUMSUB", "relock_session:"+session)
		require.NoError(t, err)
		return reply.([]any)[1]
	}
	require.Equal(t, int64(1), present())
	require.NoError(t, holder.Close(kit.Background))
	require.NoError(t, <-got)
	redistest.Eventually(t, kit.Soon, "the holder's connection to end", func() bool { return present() == int64(0) })
}
