package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const poolOption = "BlockingPoolSize"

func poolOf(n int) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) { o.BlockingPoolSize = n }
}

// takePool takes all connections of a client's pool, and returns what gives them back.
func takePool(t testing.TB, n int, clients ...rueidis.Client) (giveBack func()) {
	t.Helper()
	var puts []func()
	for _, c := range clients {
		for range n {
			conn, put := c.Dedicate()
			require.NoError(t, conn.Do(kit.Background, conn.B().Ping().Build()).Error())
			puts = append(puts, put)
		}
	}
	return func() {
		for _, put := range puts {
			put()
		}
	}
}

// started starts a session, which ends with the test, and returns why that fails.
func started(t testing.TB, client rueidis.Client, opts ...relock.SessionOption) <-chan error {
	return kit.Async(func() error {
		s, err := relock.NewSession(kit.Background, client, opts...)
		if err == nil {
			t.Cleanup(func() { _ = s.Close(kit.Background) })
		}
		return err
	})
}

// Sessions that share a client need a connection of its pool each, in a cluster of each node's, and
// WithReplicas takes one beside it. The application may give its connections back in time.
func TestSessionSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	cluster := redistest.StartCluster(t, 3, 0).Client(t, poolOf(1))
	var nodes []rueidis.Client
	for _, node := range cluster.Nodes() {
		nodes = append(nodes, node)
	}
	shared := kit.NewClient(t, primary, poolOf(1))
	for what, c := range map[string]struct {
		client rueidis.Client
		takes  []rueidis.Client // of which the application takes a connection
		opts   []relock.SessionOption
	}{
		"one server":    {shared, []rueidis.Client{shared}, nil},
		"a cluster":     {cluster, nodes, nil},
		"with replicas": {kit.NewClient(t, primary, poolOf(1)), nil, []relock.SessionOption{relock.WithReplicas(1, time.Second)}},
	} {
		giveBack := takePool(t, 1, c.takes...)
		require.ErrorContains(t, kit.Receive(t, started(t, c.client, c.opts...), "an error"), poolOption, what)
		waits := started(t, c.client)
		giveBack()
		require.NoError(t, kit.Receive(t, waits, "the session of "+what))
	}
}

// The application takes all connections of the pool while a session has its own.
func TestLockWithReplicasSaysThatThePoolIsEmpty(t *testing.T) {
	primary, _ := redistest.StartReplicas(t, 1)
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		client := kit.NewClient(t, primary, poolOf(3))
		l := k.Of(kit.SessionOn(t, client, relock.WithReplicas(1, time.Second)))
		giveBack := takePool(t, 2, client)
		err := kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "an error")
		require.ErrorContains(t, err, poolOption)
		giveBack()
		require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
	})
}

// A session whose subscription breaks while the pool is exhausted polls. It subscribes again when a
// connection is given back.
func TestWaitersPollWhileThePoolIsExhausted(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		client := kit.NewClient(t, server, poolOf(1))
		s, other := kit.SessionOn(t, client), kit.NewSession(t, server)
		held, waits := k.Holder(other), k.Of(s)
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return waits.Lock(kit.Background) })
		kit.Waits(t, s, "lock")

		// Somebody takes the session's connection when that is given up.
		taken := kit.Async(func() func() { _, put := client.Dedicate(); return put })
		redistest.Eventually(t, kit.Soon, "the session's connection to be taken", func() bool {
			do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
			time.Sleep(50 * time.Millisecond)
			return len(taken) > 0
		})
		put := <-taken
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		kit.Unlock(t, kit.Background, waits)
		listens := func() bool { return slices.Contains(server.Channels(), "relock_session:"+s.ID()) }
		require.False(t, listens())
		put()
		redistest.Eventually(t, kit.Soon, "the subscription to return", listens)
	})
}
