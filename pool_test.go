package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
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
			require.NoError(t, conn.Do(background, conn.B().Ping().Build()).Error())
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
	require.NoError(t, receive(t, async(func() error { return s.Close(background) }), "the session to close"))
}

// Sessions that share a client need a connection of its pool each.
func TestASessionSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server, poolOf(1))
	first := sessionOn(t, client)
	m := first.Mutex("m")
	lock(t, background, m)
	require.ErrorContains(t, receive(t, async(func() error { return start(t, background, client) }), "an error"), poolOption)
	unlock(t, background, m)
	closes(t, first)
	require.NoError(t, start(t, background, client))
}

// A ctx that ends first does not hide why.
func TestASessionWhoseContextEndsSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t), poolOf(1))
	defer takePool(t, 1, client)()
	ctx, cancel := context.WithTimeout(background, 4*time.Second)
	defer cancel()
	err := start(t, ctx, client)
	require.ErrorContains(t, err, poolOption)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The application gives its connections back in time.
func TestASessionWaitsForAConnectionOfThePool(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t), poolOf(2))
	giveBack := takePool(t, 2, client)
	got := async(func() error { return start(t, background, client) })
	time.Sleep(100 * time.Millisecond)
	require.Empty(t, got)
	giveBack()
	require.NoError(t, receive(t, got, "the session to start"))
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
	require.ErrorContains(t, receive(t, async(func() error { return start(t, background, client) }), "an error"), poolOption)
	giveBack()
	s := sessionOn(t, client)
	for _, name := range []string{"a", "b", "c", "d"} {
		lock(t, background, s.FairMutex(name))
	}
}

// WithReplicas takes a connection beside that of the session.
func TestASessionWithReplicasSaysThatThePoolIsTooSmall(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	replicas := relock.WithReplicas(1, time.Second)
	client := newClient(t, primary, poolOf(1))
	require.ErrorContains(t, receive(t, async(func() error { return start(t, background, client, replicas) }), "an error"), poolOption)
}

// The application takes all connections of the pool while a session has its own.
func TestALockWithReplicasSaysThatThePoolIsExhausted(t *testing.T) {
	t.Parallel()
	primary, _ := redistest.StartReplicas(t, 1)
	for _, k := range lockKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, primary, poolOf(3))
			s := sessionOn(t, client, relock.WithReplicas(1, time.Second))
			l := k.of(s)
			giveBack := takePool(t, 2, client)
			err := receive(t, async(func() error { return l.Lock(background) }), "an error")
			require.ErrorContains(t, err, poolOption)
			giveBack()
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
		})
	}
}

// A session whose subscription breaks while the pool is exhausted polls, and can be
// closed.
func TestWaitersPollWhileThePoolIsExhausted(t *testing.T) {
	eachKind(t, func(t *testing.T, k *lockKind) {
		server := redistest.Start(t)
		client := newClient(t, server, poolOf(1))
		s, other := sessionOn(t, client), newSession(t, server)
		held, waits := k.holder(other), k.of(s)
		lock(t, background, held)
		got := async(func() error { return waits.Lock(background) })
		redistest.Eventually(t, soon, "a waiter", func() bool { return peek.Listens(s, "lock") })

		taken := make(chan func())
		go func() { // takes the session's connection when that is given up
			_, put := client.Dedicate()
			taken <- put
		}()
		var put func()
		redistest.Eventually(t, soon, "the session's connection to be taken", func() bool {
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
		unlock(t, background, held)
		require.NoError(t, receive(t, got, "the waiter to get in"))
		unlock(t, background, waits)
		closes(t, s)
	})
}

// It subscribes again when a connection is given back.
func TestASubscriptionReturnsWhenThePoolHasAConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server, poolOf(1))
	s := sessionOn(t, client)
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
	taken := async(func() func() { _, put := client.Dedicate(); return put })
	redistest.Eventually(t, soon, "the session's connection to be taken", func() bool {
		_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		return len(taken) > 0
	})
	put := <-taken
	time.Sleep(8 * time.Second) // until the first attempt is given up
	require.False(t, listens())
	put()
	redistest.Eventually(t, soon, "the subscription to return", listens)
}
