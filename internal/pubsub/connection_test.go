package pubsub

import (
	"fmt"
	"strings"
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
	c := b.conns[""]
	b.mu.Unlock()
	free := redistest.KeepBusy(t, server)
	require.NoError(t, c.probe(), "of a connection that answers BUSY")
	free()
	_, err := server.Do("REPLICAOF", "127.0.0.1", "1")
	require.NoError(t, err)
	redistest.Eventually(t, enough, "the replica to be noticed", func() bool { return !b.Conn.Up.Load() })
}

// A server that refuses to tell its role is alive. One moment of that ended the checks for good: a session stayed
// subscribed on a replica.
func TestServerThatHidesItsRoleIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := newBroker(t, server.Client(t))
	l := b.SubscribeFunc("a", func() {})
	defer l.Unsubscribe()
	redistest.Eventually(t, enough, "the channel", l.Live)
	do := func(args ...string) {
		t.Helper()
		_, err := server.Do(args...)
		require.NoError(t, err)
	}
	do("ACL", "SETUSER", "default", "-role")
	redistest.Eventually(t, enough, "the refusal", func() bool {
		stats, err := server.Do("INFO", "commandstats")
		require.NoError(t, err)
		rejected := 0
		_, rest, _ := strings.Cut(stats.(string), "cmdstat_role:")
		_, rest, _ = strings.Cut(rest, "rejected_calls=")
		_, _ = fmt.Sscanf(rest, "%d", &rejected)
		return rejected > 0
	})
	require.True(t, l.Live(), "the server is alive")
	do("ACL", "SETUSER", "default", "+role")
	do("REPLICAOF", "127.0.0.1", "1")
	redistest.Eventually(t, enough, "the replica to be noticed", func() bool { return !b.Conn.Up.Load() })
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
