package session

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// startSplit starts a session whose subscription connection goes through a proxy, and no
// other. The client's first dial is for its shared connection; after that, only the dials of
// dedicated connections have no context of a call.
func startSplit(t testing.TB, s *redistest.Server, p *redistest.Proxy) *Session {
	t.Helper()
	var dials atomic.Int64
	return start(t, s.Client(t, func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			addr := s.Addr()
			if dials.Add(1) > 1 && ctx == context.Background() {
				addr = p.Addr()
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}), 30*time.Second)
}

// A waiter whose subscription is silent gets the lock all the same, and while nothing can be heard
// it looks often.
func TestSilentSubscriptionIsNoticed(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(p *redistest.Proxy, on bool){
		"stalled":   (*redistest.Proxy).Stall,
		"blackhole": (*redistest.Proxy).Blackhole,
		"refused": func(p *redistest.Proxy, on bool) {
			p.Refuse(on)
			p.Cut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr())
			e := startSplit(t, server, p)
			require.Equal(t, 1, p.Connections(), "through the proxy: that of the subscription")
			var holder, waiter acquire.Lock
			holder.Init(start(t, server.Client(t), time.Hour).Node, wire.Plain, "it", acquire.LockConfig{})
			waiter.Init(e.Node, wire.Plain, "it", acquire.LockConfig{})
			getsIn := func(what string, meanwhile func()) {
				held, err := holder.Take(background, nil, nil, true, false)
				require.NoError(t, err)
				var granted acquire.Held
				got := make(chan error, 1)
				go func() { // ends with the test at the latest
					var err error
					granted, err = waiter.Take(background, nil, nil, true, false)
					got <- err
				}()
				redistest.Eventually(t, enough, "the waiter to queue", func() bool { return e.Queue.Len("it") > 0 })
				meanwhile()
				require.NoError(t, holder.Release(background, held, false))
				select {
				case err := <-got:
					require.NoError(t, err, what)
				case <-time.After(enough):
					t.Fatal("waits for ever: ", what)
				}
				require.NoError(t, waiter.Release(background, granted, false))
			}

			getsIn("the waiter that hears nothing", func() { silence(p, true) })
			redistest.Eventually(t, enough, "the silence to be noticed", func() bool { return !e.Proto.Up.Load() })
			getsIn("the waiter that knows it hears nothing", func() {
				before := server.CommandStats()["evalsha"]
				redistest.Eventually(t, enough, "many looks", func() bool {
					return server.CommandStats()["evalsha"] > before+20
				})
			})
			silence(p, false)
			redistest.Eventually(t, enough, "the subscription to be back", func() bool {
				return e.Proto.Up.Load() && server.PubSubClients() == 2
			})
			getsIn("a waiter after that", func() {})
		})
	}
}

// With RESP2 rueidis has another connection for subscriptions, beside the one that answers commands. Where only
// that was silent, a session went on for as long as rueidis itself.
func TestSilentSubscriptionIsNoticedWithRESP2(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr())
	var dials atomic.Int64
	e := start(t, server.Client(t, func(o *rueidis.ClientOption) {
		o.AlwaysRESP2, o.ConnWriteTimeout = true, 10*time.Minute
		o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			addr := server.Addr()
			switch n := dials.Add(1); {
			case n == 3: // after the shared and the dedicated one
				addr = p.Addr()
			case n > 3: // the subscription is missing for long enough to be seen
				time.Sleep(time.Second)
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}), 30*time.Second)
	require.Equal(t, 1, p.Connections(), "through the proxy: that of the subscription")
	require.True(t, e.Proto.Up.Load())
	p.Stall(true)
	redistest.Eventually(t, enough, "the silence to be noticed", func() bool { return !e.Proto.Up.Load() })
	redistest.Eventually(t, enough, "another subscription", func() bool { return e.Proto.Up.Load() })
}
