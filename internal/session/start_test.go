package session

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What a server can do is not found out while it is busy: a session that starts waits for
// that, as long as its context lets it.
func TestSessionThatStartsOnABusyServerIsNotMisled(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "--lua-time-limit", "10")
	single := redistest.Start(t, "--lua-time-limit", "10")
	for _, c := range []struct {
		what   string
		client rueidis.Client
		nodes  []*redistest.Server
	}{
		{"single", single.Client(t), []*redistest.Server{single}},
		{"cluster", cluster.Client(t), cluster.Nodes()},
	} {
		first, s := bare(t, c.client, 30*time.Second), bare(t, c.client, 30*time.Second)
		free := redistest.KeepBusy(t, c.nodes...)
		ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
		require.Error(t, first.check(ctx), "%s: it has found something out while the server was busy", c.what)
		cancel()
		found := make(chan error, 1)
		go func() { found <- s.check(background) }()
		select {
		case err := <-found:
			t.Fatalf("%s: it has found something out while the server was busy, or %v", c.what, err)
		case <-time.After(200 * time.Millisecond):
		}
		free()
		require.NoError(t, <-found, c.what)
		require.False(t, s.Proto.AnyRole.Load(), "%s: it will not ask for the role", c.what)
		sharded := c.what == "cluster" && redistest.Has(t, redistest.ShardedPubSub)
		require.Equal(t, sharded, s.broker.Shards != nil, "%s: sharded", c.what)
		for _, e := range []*Session{first, s} {
			e.halt()
			e.strays.wait(nil)
		}
	}
}
