package topology_test

import (
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// subscribing is a client of a cluster that calls f with the address of the node that a
// connection is about to be used for messages of.
type subscribing struct {
	rueidis.Client
	f    func(addr string)
	addr string
}

func (c subscribing) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = subscribing{node, c.f, addr}
	}
	return nodes
}

func (c subscribing) Dedicate() (rueidis.DedicatedClient, func()) {
	conn, put := c.Client.Dedicate()
	return subscribingConn{conn, c}, put
}

type subscribingConn struct {
	rueidis.DedicatedClient
	c subscribing
}

func (c subscribingConn) SetPubSubHooks(hooks rueidis.PubSubHooks) <-chan error {
	c.c.f(c.c.addr)
	return c.DedicatedClient.SetPubSubHooks(hooks)
}

// The node where a session that starts is about to subscribe its channel hangs just then.
// Any other has the channel, too.
func TestSessionStartsAlthoughTheNodeOfItsChannelHangs(t *testing.T) {
	t.Parallel()
	c := startUncovered(t)
	client := c.Client(t)
	for range 3 {
		var hung *redistest.Server
		var once sync.Once
		ctx, cancel := kit.ContextFor(kit.Soon)
		s, err := relock.NewSession(ctx, subscribing{client, func(addr string) {
			once.Do(func() {
				for _, node := range c.Nodes() {
					if node.Addr() == addr {
						hung = node
						require.NoError(t, node.Freeze())
					}
				}
			})
		}, ""})
		require.NotNil(t, hung)
		require.NoError(t, hung.Thaw())
		require.NoError(t, err)
		require.NoError(t, s.Close(ctx))
		cancel()
		require.NoError(t, c.Settle())
	}
}
