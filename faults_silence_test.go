package relock_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// splitSession starts a session whose subscription connection goes through a proxy,
// and no other. The client's first dial is for its shared connection, the second for the
// questions of NewSession, whose connection the subscription takes over; after that, only
// the dials of dedicated connections have a context without an end.
func splitSession(t testing.TB, s *redistest.Server, p *redistest.Proxy, opts ...relock.SessionOption) *relock.Session {
	t.Helper()
	var dials atomic.Int64
	return sessionOn(t, newClient(t, s, func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			addr := s.Addr()
			if n := dials.Add(1); n == 2 || n > 2 && ctx.Done() == nil {
				addr = p.Addr()
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}), opts...)
}

func TestSilentSubscriptionIsNoticed(t *testing.T) {
	t.Parallel()
	const backing = 3 * time.Second * 3 / 2
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
			s, p := proxied(t)
			waiter := splitSession(t, s, p).Mutex("it")
			holder := newSession(t, s).Mutex("it")
			require.EqualValues(t, 1, p.Connections(), "the subscription goes through the proxy")
			lock(t, background, holder)
			waiting := async(func() error { return waiter.Lock(background) })
			redistest.Eventually(t, soon, "the waiter to listen", func() bool {
				return subscribers(t, s, "redisson_lock__channel:{it}") == 1
			})
			c.hurt(p)
			unlock(t, background, holder)
			start := time.Now()
			require.NoError(t, receive(t, waiting, "the waiter that hears nothing"))
			require.Less(t, time.Since(start), backing)

			// While nothing can be heard, waiters look often.
			for range 3 {
				unlock(t, background, waiter)
				lock(t, background, holder)
				waiting := async(func() error { return waiter.Lock(background) })
				time.Sleep(50 * time.Millisecond)
				start := time.Now()
				unlock(t, background, holder)
				require.NoError(t, receive(t, waiting, "the waiter that knows it hears nothing"))
				require.Less(t, time.Since(start), slack)
			}
			unlock(t, background, waiter)
			c.heal(p)
			redistest.Eventually(t, soon, "the subscription to be back", func() bool { return s.PubSubClients() == 2 })
			goesOn(t, waiter, holder)
		})
	}
}
