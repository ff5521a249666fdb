package pubsub

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
)

const enough = 20 * time.Second // for what comes quickly on an idle machine

// newBroker starts a broker, which has one channel pinned like that of a session. It
// ends with the test.
func newBroker(t *testing.T, client rueidis.Client) *Broker {
	t.Helper()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	b := New(Config{
		Conn:    transport.NewConn(client, 0, 0, &wg),
		Clock:   clock.New(),
		Handler: func(string, string) bool { return false },
		Tasks:   &wg,
		Ctx:     ctx,
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	pinning, stop := context.WithTimeout(ctx, enough)
	defer stop()
	require.NoError(t, b.Pin(pinning, "pinned", func() {}))
	return b
}

// countedClient returns a client and counts its connections.
func countedClient(t *testing.T, s *redistest.Server) (rueidis.Client, *atomic.Int64) {
	t.Helper()
	dials := new(atomic.Int64)
	return s.Client(t, func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dials.Add(1)
			return d.DialContext(ctx, "tcp", addr)
		}
	}), dials
}

func (h *Broker) subscribed(channel string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.subs[channel]
	return t != nil && t.live != nil
}

// only returns the connection of a broker outside a cluster.
func (h *Broker) only() *connection {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conns[""]
}
