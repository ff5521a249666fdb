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
func newBroker(t *testing.T, client rueidis.Client, mod ...func(*Config)) *Broker {
	t.Helper()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	var conn *transport.Conn
	cfg := Config{
		Busy:    func() bool { return false },
		Client:  client,
		Handler: func(string, string) bool { return false },
		Clock:   clock.New(),
		Spawn:   wg.Go,
		Ctx:     ctx,
		Dedicate: func(d transport.Dedicater) (rueidis.DedicatedClient, func(), error) {
			return conn.Dedicate(ctx, d)
		},
	}
	for _, f := range mod {
		f(&cfg)
	}
	b := New(cfg)
	conn = transport.NewConn(client, 0, 0, &wg, &b.Up)
	t.Cleanup(func() { cancel(); wg.Wait() })
	pinning, stop := context.WithTimeout(ctx, enough)
	defer stop()
	require.NoError(t, b.Pin(pinning, "pinned"))
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
	return t != nil && t.live
}

// only returns the connection of a broker outside a cluster.
func (h *Broker) only() *connection {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conns[""]
}
