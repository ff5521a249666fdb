package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/timing"
	"github.com/stretchr/testify/require"
)

// A server that is busy with somebody's script refuses ROLE as well. That says nothing
// about later: a primary that becomes a replica then is noticed.
func TestBusyServerStillReportsItsRole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--lua-time-limit", "10")
	b := newBroker(t, server.Client(t))
	b.mu.Lock()
	n := b.conns[""]
	b.mu.Unlock()
	conn, put := server.Client(t).Dedicate()
	defer put()
	free := redistest.KeepBusy(t, server)
	require.NoError(t, n.probe(conn), "of a connection that answers BUSY")
	free()
	require.False(t, b.NoRole.Load(), "the server is not asked for its role any more")
	_, err := server.Do("REPLICAOF", "127.0.0.1", "1")
	require.NoError(t, err)
	redistest.Eventually(t, enough, "the replica to be noticed", func() bool { return !b.Conn.Up.Load() })
	require.Equal(t, errReplica, n.probe(conn), "on a replica")
}

func TestServerThatHidesItsRoleIsProbedByPing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, err := server.Do("ACL", "SETUSER", "default", "-role")
	require.NoError(t, err)
	conn, put := server.Client(t).Dedicate()
	defer put()
	n := &connection{broker: &Broker{Config: Config{Ctx: context.Background()}}}
	require.NoError(t, n.probe(conn))
	require.True(t, n.broker.NoRole.Load())
	before := server.CommandStats()["ping"]
	require.NoError(t, n.probe(conn))
	require.Equal(t, before+1, server.CommandStats()["ping"])
}

// Every confirmation is one before which messages may have been missed: it wakes the listener.
func TestListenerIsWokenByEachConfirmation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := newBroker(t, server.Client(t))
	woken := make(chan struct{}, 1)
	l := b.SubscribeFunc("a", func() { timing.Signal(woken) })
	defer l.Unsubscribe()
	wakes := func() {
		t.Helper()
		select {
		case <-woken:
		case <-time.After(enough):
			t.Fatal("not woken")
		}
	}
	redistest.Eventually(t, enough, "the channel", l.Live)
	wakes()

	_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, err)
	wakes()
	redistest.Eventually(t, enough, "the channel to be subscribed again", l.Live)
	_, err = server.Do("PUBLISH", "a", "0")
	require.NoError(t, err)
	wakes()
}
