package engine

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// splitEngine starts an engine whose subscription connection goes through a proxy, and no
// other. The client's first dial is for its shared connection, the second for the
// questions of Start, whose connection the subscription takes over; after that, only the
// dials of dedicated connections have a context without an end.
func splitEngine(t testing.TB, s *redistest.Server, p *redistest.Proxy) *Engine {
	t.Helper()
	var dials atomic.Int64
	return newEngine(t, s.Client(t, func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			addr := s.Addr()
			if n := dials.Add(1); n == 2 || n > 2 && ctx.Done() == nil {
				addr = p.Addr()
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}), 30*time.Second)
}

// silence is a lock with a holder, and a waiter that may be unable to hear of its release.
type silence struct {
	t              *testing.T
	holder, waiter *Lock
	got            chan error
}

// wait locks the lock and starts to wait for it.
func (s *silence) wait() {
	s.t.Helper()
	require.NoError(s.t, s.holder.Lock(background))
	s.got = make(chan error, 1)
	got := s.got
	go func() { got <- s.waiter.Lock(background) }() // ends with the test at the latest
	redistest.Eventually(s.t, enough, "the waiter to queue", func() bool { return s.waiter.e.Waits("it") })
}

// ends unlocks the lock, and waits until the waiter has had it.
func (s *silence) ends(what string) {
	s.t.Helper()
	require.NoError(s.t, s.holder.Unlock(background))
	require.NoError(s.t, within(s.t, s.got, what))
	require.NoError(s.t, s.waiter.Unlock(background))
}

// A waiter whose subscription is silent gets the lock all the same, and while nothing can be heard
// it looks often.
func TestSilentSubscriptionIsNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		hurt, heal func(p *redistest.Proxy)
	}{
		{"stalled", func(p *redistest.Proxy) { p.Stall(true) }, func(p *redistest.Proxy) { p.Stall(false) }},
		{"blackhole", func(p *redistest.Proxy) { p.Blackhole(true) }, func(p *redistest.Proxy) { p.Blackhole(false) }},
		{"refused", func(p *redistest.Proxy) { p.Refuse(true); p.Cut() }, func(p *redistest.Proxy) { p.Refuse(false) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr())
			waiter := splitEngine(t, server, p)
			require.Equal(t, 1, p.Connections(), "through the proxy: that of the subscription")
			s := &silence{
				t: t, holder: newLock(newEngine(t, server.Client(t), time.Hour), wire.Plain, "it", LockConfig{}),
				waiter: newLock(waiter, wire.Plain, "it", LockConfig{}),
			}

			s.wait()
			c.hurt(p)
			s.ends("the waiter that hears nothing")

			redistest.Eventually(t, enough, "the silence to be noticed", func() bool { return !waiter.proto.Up.Load() })
			s.wait()
			before := server.CommandStats()["evalsha"]
			redistest.Eventually(t, enough, "many looks while nothing can be heard", func() bool { return server.CommandStats()["evalsha"] > before+20 })
			s.ends("the waiter that knows it hears nothing")

			c.heal(p)
			redistest.Eventually(t, enough, "the subscription to be back", func() bool {
				return waiter.proto.Up.Load() && server.PubSubClients() == 2
			})
			s.wait()
			s.ends("a waiter after that")
		})
	}
}
