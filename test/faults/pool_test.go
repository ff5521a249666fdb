package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
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

// start starts a session and closes it when the test ends.
func start(t testing.TB, ctx context.Context, client rueidis.Client, opts ...relock.SessionOption) error {
	t.Helper()
	s, err := relock.NewSession(ctx, client, opts...)
	if err == nil {
		t.Cleanup(func() { closes(t, s) })
	}
	return err
}

func closes(t testing.TB, s *relock.Session) {
	t.Helper()
	require.NoError(t, kit.Receive(t, kit.Async(func() error { return s.Close(kit.Background) }), "the session to close"))
}

// Sessions that share a client need a connection of its pool each.
func TestASessionSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server, poolOf(1))
	first := kit.SessionOn(t, client)
	m := first.Mutex("m")
	kit.Lock(t, kit.Background, m)
	require.ErrorContains(t, kit.Receive(t, kit.Async(func() error { return start(t, kit.Background, client) }), "an error"), poolOption)
	kit.Unlock(t, kit.Background, m)
	closes(t, first)
	require.NoError(t, start(t, kit.Background, client))
}

// A ctx that ends first does not hide why.
func TestASessionWhoseContextEndsSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	client := kit.NewClient(t, redistest.Start(t), poolOf(1))
	defer takePool(t, 1, client)()
	ctx, cancel := context.WithTimeout(kit.Background, 4*time.Second)
	defer cancel()
	err := start(t, ctx, client)
	require.ErrorContains(t, err, poolOption)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The application gives its connections back in time.
func TestASessionWaitsForAConnectionOfThePool(t *testing.T) {
	t.Parallel()
	client := kit.NewClient(t, redistest.Start(t), poolOf(2))
	giveBack := takePool(t, 2, client)
	got := kit.Async(func() error { return start(t, kit.Background, client) })
	time.Sleep(100 * time.Millisecond)
	require.Empty(t, got)
	giveBack()
	require.NoError(t, kit.Receive(t, got, "the session to start"))
}

// In a cluster each node has a pool.
func TestASessionSaysThatThePoolsOfAClusterAreTooSmall(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	client := c.Client(t, poolOf(1))
	var nodes []rueidis.Client
	for _, node := range client.Nodes() {
		nodes = append(nodes, node)
	}
	giveBack := takePool(t, 1, nodes...)
	require.ErrorContains(t, kit.Receive(t, kit.Async(func() error { return start(t, kit.Background, client) }), "an error"), poolOption)
	giveBack()
	s := kit.SessionOn(t, client)
	for _, name := range []string{"a", "b", "c", "d"} {
		kit.Lock(t, kit.Background, s.FairMutex(name))
	}
}

// WithReplicas takes a connection beside that of the session.
func TestASessionWithReplicasSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	replicas := relock.WithReplicas(1, time.Second)
	client := kit.NewClient(t, primary, poolOf(1))
	require.ErrorContains(t, kit.Receive(t, kit.Async(func() error { return start(t, kit.Background, client, replicas) }), "an error"), poolOption)
}

// The application takes all connections of the pool while a session has its own.
func TestALockWithReplicasSaysThatThePoolIsExhausted(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	for _, k := range kit.LockKinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			client := kit.NewClient(t, primary, poolOf(3))
			s := kit.SessionOn(t, client, relock.WithReplicas(1, time.Second))
			l := k.Of(s)
			giveBack := takePool(t, 2, client)
			err := kit.Receive(t, kit.Async(func() error { return l.Lock(kit.Background) }), "an error")
			require.ErrorContains(t, err, poolOption)
			giveBack()
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
		})
	}
}

// A session whose subscription breaks while the pool is exhausted polls, and can be
// closed.
func TestWaitersPollWhileThePoolIsExhausted(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		client := kit.NewClient(t, server, poolOf(1))
		s, other := kit.SessionOn(t, client), kit.NewSession(t, server)
		held, waits := k.Holder(other), k.Of(s)
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return waits.Lock(kit.Background) })
		redistest.Eventually(t, kit.Soon, "a waiter", func() bool { return peek.Waits(s, "lock") })

		taken := make(chan func())
		go func() { // takes the session's connection when that is given up
			_, put := client.Dedicate()
			taken <- put
		}()
		var put func()
		redistest.Eventually(t, kit.Soon, "the session's connection to be taken", func() bool {
			_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
			require.NoError(t, err)
			select {
			case put = <-taken:
				return true
			case <-time.After(100 * time.Millisecond):
				return false
			}
		})
		defer func() { put() }()
		kit.Unlock(t, kit.Background, held)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		kit.Unlock(t, kit.Background, waits)
		closes(t, s)
	})
}

// It subscribes again when a connection is given back.
func TestASubscriptionReturnsWhenThePoolHasAConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server, poolOf(1))
	s := kit.SessionOn(t, client)
	own := "relock_session:" + s.ID()
	listens := func() bool {
		for _, channel := range server.Channels() {
			if channel == own {
				return true
			}
		}
		return false
	}
	require.True(t, listens())
	taken := kit.Async(func() func() { _, put := client.Dedicate(); return put })
	redistest.Eventually(t, kit.Soon, "the session's connection to be taken", func() bool {
		_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		return len(taken) > 0
	})
	put := <-taken
	time.Sleep(8 * time.Second) // until the first attempt is given up
	require.False(t, listens())
	put()
	redistest.Eventually(t, kit.Soon, "the subscription to return", listens)
}
