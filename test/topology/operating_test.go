package topology_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

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
