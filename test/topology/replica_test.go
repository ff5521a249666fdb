package topology_test

import (
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A replica passes messages on, and the primary that has published them does not count
// who hears them there. Regression: after a failover the new primary found nobody
// listening for a grant, and gave the lock to the next; but the first waiter, whose
// connection still led to the old primary, heard of its grant and had the lock, too.
func TestAWaiterOnAReplicaIsNotGrantedWhatGoesToAnother(t *testing.T) {
	t.Parallel()
	old, replicas := redistest.StartReplicas(t, 1)
	next := replicas[0]
	// One that may not ask for the role does not notice that it is on a replica.
	admin(t, old, "ACL", "SETUSER", "waiter", "on", ">secret", "~*", "&*", "+@all", "-role")
	waiter := kit.SessionOn(t, kit.NewClient(t, old, as("waiter", "secret")))
	held, waiting := kit.NewSession(t, old).FairMutex("lock"), waiter.FairMutex("lock")
	kit.Lock(t, kit.Background, held)
	got := kit.Async(func() error { return waiting.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the waiter to queue", func() bool {
		n, err := next.Do("ZCARD", "relock_queue:{lock}")
		return err == nil && n == int64(1)
	})
	admin(t, next, "REPLICAOF", "NO", "ONE")
	demote(t, old, next)

	heard := make(chan struct{})
	listener, put := kit.NewClient(t, old).Dedicate()
	t.Cleanup(put)
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { close(heard) }})
	require.NoError(t, listener.Do(kit.Background, listener.B().Subscribe().Channel("after").Build()).Error())

	other := kit.NewSession(t, next)
	was, err := other.ForceUnlock(kit.Background, "lock")
	require.NoError(t, err)
	require.True(t, was)
	require.True(t, kit.TryLock(t, kit.Background, other.FairMutex("lock")))
	admin(t, next, "PUBLISH", "after", "")
	kit.Receive(t, heard, "a message to come through the replica")
	time.Sleep(50 * time.Millisecond)
	require.Empty(t, got, "two have the lock")
	require.NoError(t, waiter.Close(kit.Background))
	require.Error(t, kit.Receive(t, got, "the waiter to leave"))
}

// portOf returns the port of a server.
func portOf(t testing.TB, s *redistest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	return port
}
