package topology_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// On a replica every Lock would fail, so a session on it is refused, unless it accepts writes. One that has lost
// its primary may be promoted: the session begins when it is, and not before, unless ctx ends.
func TestSessionWaitsForThePromotionOfAReplica(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	replica := replicas[0]
	require.Contains(t, refusal(t, replicated{replica}), "relock: NewSession: ")
	require.Contains(t, refusal(t, replicated{replica}), "read-only replica")
	admin(t, replica, "CONFIG", "SET", "replica-read-only", "no")
	kit.Lock(t, kit.Background, kit.NewSession(t, replica).Mutex("another"))
	admin(t, replica, "CONFIG", "SET", "replica-read-only", "yes")

	primary.Kill()
	redistest.Eventually(t, kit.Soon, "the replica to miss its primary", func() bool {
		return replica.Info("replication")["master_link_status"] == "down"
	})
	ctx, cancel := kit.ContextFor(100 * time.Millisecond)
	defer cancel()
	_, err := relock.NewSession(ctx, kit.NewClient(t, replica))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "read-only replica")

	client := kit.NewClient(t, replica)
	began := kit.Async(func() error { return lockOnce(client) })
	time.Sleep(300 * time.Millisecond) // it asks again and again
	require.Empty(t, began, "it began on a replica")
	admin(t, replica, "REPLICAOF", "NO", "ONE")
	require.NoError(t, kit.Receive(t, began, "the session"))
}

// lockOnce begins a session, takes a lock, and closes the session.
func lockOnce(client rueidis.Client) error {
	s, err := relock.NewSession(kit.Background, client)
	if err != nil {
		return err
	}
	return errors.Join(s.Mutex("lock").Lock(kit.Background), s.Close(kit.Background))
}

// Whoever waits for more replicas than there are waits in vain: that is refused with both numbers,
// in a cluster for each primary.
func TestMoreReplicasThanThereAreAreRefused(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	cluster := redistest.StartCluster(t, 3, 1)
	for _, d := range []deployment{replicated{primary}, cluster} {
		text := refusal(t, d, relock.WithReplicas(2, 500*time.Millisecond))
		require.Contains(t, text, "relock: NewSession: option out of range: WithReplicas(2, 500ms): the primary")
		require.Contains(t, text, "has 1 connected")
		kit.Lock(t, kit.Background, kit.SessionOn(t, d.Client(t), relock.WithReplicas(1, kit.Soon)).Mutex("lock"))
	}
	bare := cluster.Masters()[0]
	cluster.Replica(bare).Kill()
	redistest.Eventually(t, kit.Soon, "it to be missed", func() bool { return bare.Info("replication")["connected_slaves"] == "0" })
	require.Contains(t, refusal(t, cluster, relock.WithReplicas(1, time.Second)), "the primary at "+bare.Addr()+" has 0 connected")
}

// Through Sentinel a client may still be connected to what was the primary. The session begins when
// the client follows the sentinels to the new one.
func TestASessionThroughSentinelWaitsForTheFailover(t *testing.T) {
	t.Parallel()
	d := redistest.StartSentinel(t)
	client, was := d.Client(t), d.Primary()
	require.NotNil(t, was)
	demote(t, was, redistest.Start(t))
	began := kit.Async(func() error { return lockOnce(client) })
	redistest.Eventually(t, 5*kit.Soon, "the session to begin", func() bool { return len(began) == 1 })
	require.NoError(t, <-began)
	require.NotEqual(t, was.Addr(), d.Primary().Addr())
}

// A replica passes messages on, and the primary that has published them does not count
// who hears them there. Regression: after a failover the new primary found nobody
// listening for a grant, and gave the lock to the next; but the first waiter, whose
// connection still led to the old primary, heard of its grant and had the lock, too.
func TestWaiterOnAReplicaIsNotGrantedAnothersLock(t *testing.T) {
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
