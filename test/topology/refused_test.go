package topology_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// begins returns why a session does not begin.
func begins(client rueidis.Client) <-chan error {
	return kit.Async(func() error {
		s, err := relock.NewSession(kit.Background, client)
		if err == nil {
			_ = s.Close(kit.Background)
		}
		return err
	})
}

// Through Sentinel a client may ask for replicas only. NewSession waited for ever that one becomes the primary.
func TestSessionRefusesAClientOfReplicasOnly(t *testing.T) {
	t.Parallel()
	client := redistest.StartSentinel(t).Client(t, func(o *rueidis.ClientOption) { o.ReplicaOnly = true })
	require.ErrorContains(t, kit.Receive(t, begins(client), "the error"), "ReplicaOnly")
}

// A client that is told so takes a node of a cluster for a single server. The session began, and Lock waited on
// MOVED until its context ended. Where the node does not say what it is, Lock does.
func TestSessionRefusesOneNodeOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	node := cluster.Masters()[0]
	single := func(o *rueidis.ClientOption) { o.ForceSingleClient = true }
	client := node.Client(t, single)
	require.Equal(t, rueidis.ClientModeStandalone, client.Mode())
	require.ErrorContains(t, kit.Receive(t, begins(client), "the error"), "ForceSingleClient")

	admin(t, node, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-cluster|info", "-cluster")
	s := kit.SessionOn(t, node.Client(t, single, as("app", "secret")))
	away := nameWhere("away", func(name string) bool { return cluster.NodeForKey(name) != node })
	err := kit.Receive(t, kit.Async(func() error { return s.Mutex(away).Lock(kit.Background) }), "Lock")
	require.ErrorContains(t, err, "ForceSingleClient")
	here := s.Mutex(nameOn(cluster, node, "here"))
	kit.Lock(t, kit.Background, here)
	kit.Unlock(t, kit.Background, here)
}

// A node that hangs holds up its own acquisitions, and no other node's. Those that wait for replicas need a connection
// of their own, and all places for those who connect were taken by the frozen node.
func TestFrozenNodeHoldsUpNoAcquisitionOfAnother(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "60000")
	frozen, other := cluster.Masters()[0], cluster.Masters()[1]
	s := kit.SessionOn(t, cluster.Client(t, func(o *rueidis.ClientOption) {
		o.Dialer.Timeout, o.ConnWriteTimeout = time.Minute, time.Minute
	}), relock.WithReplicas(1, time.Second))
	free, tag := s.Mutex(nameOn(cluster, other, "free")), nameOn(cluster, frozen, "frozen")
	require.NoError(t, frozen.Freeze())
	ctx, cancel := context.WithCancel(kit.Background)
	defer cancel()
	var waiting []<-chan error
	for i := range 40 {
		m := s.Mutex(fmt.Sprint(i, "{", tag, "}"))
		waiting = append(waiting, kit.Async(func() error { return m.Lock(ctx) }))
	}
	time.Sleep(200 * time.Millisecond) // they connect
	require.NoError(t, kit.Receive(t, kit.Async(func() error { return free.Lock(kit.Background) }), "the lock of another node"))
	kit.Unlock(t, kit.Background, free)
	cancel()
	for _, got := range waiting {
		require.ErrorIs(t, kit.Receive(t, got, "a call that was cancelled"), context.Canceled)
	}
	require.NoError(t, frozen.Thaw())
}
