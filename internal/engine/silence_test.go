package engine

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lease"
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

// patientWait waits for a lock without ever asking by itself again, as long as it
// believes that it hears. It counts the attempts that Redis has answered.
func patientWait(ctx context.Context, s *Engine, name string, asked *atomic.Int64) (*lease.Lease, error) {
	b := s.newBase(wire.Plain, name, LockConfig{})
	a := b.attempt(ctx, "lock", nil, true, new(Acquired))
	a.poll = time.Hour
	l := b.newLease()
	return l, a.retry(func() (bool, time.Duration, error) {
		ttl, err := a.request(l, func() (int64, time.Duration, error) {
			return s.proto.Acquire(a.io, &l.Ref, b.leaseMS, true)
		})
		if err == nil {
			asked.Add(1)
		}
		return l.Token > 0, ttl, err
	})
}

// silence is a lock with a holder, and a waiter that may be unable to hear of its release.
type silence struct {
	t      *testing.T
	holder *Mutex
	waiter *Engine
	asked  atomic.Int64
	got    chan *lease.Lease
}

// wait locks the lock and starts to wait for it.
func (s *silence) wait() {
	s.t.Helper()
	require.NoError(s.t, s.holder.Lock(background))
	s.asked.Store(0)
	got := make(chan *lease.Lease, 1)
	s.got = got
	s.waiter.calls.Add(1) // a call that the close of the engine waits for
	go func() {
		defer s.waiter.End()
		l, err := patientWait(background, s.waiter, "it", &s.asked)
		if err != nil {
			s.t.Error(err)
		}
		got <- l
	}()
	redistest.Eventually(s.t, enough, "the waiter to ask", func() bool { return s.asked.Load() > 0 })
}

// ends unlocks the lock, and waits until the waiter has had it.
func (s *silence) ends(what string) {
	s.t.Helper()
	require.NoError(s.t, s.holder.Unlock(background))
	select {
	case l := <-s.got:
		_, err := s.waiter.proto.Release(background, &l.Ref)
		require.NoError(s.t, err)
	case <-time.After(enough):
		s.t.Fatalf("%s waits for ever", what)
	}
}

// A waiter whose subscription is silent gets the lock all the same, and while nothing can
// be heard, waiters ask often. Here nothing else would ever make them ask.
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
			m := newEngine(t, server.Client(t), time.Hour).Mutex("it", LockConfig{})
			s := &silence{t: t, holder: &m, waiter: waiter}

			s.wait()
			channel := wire.NewKeys(wire.Plain, "it").Channel
			redistest.Eventually(t, enough, "the waiter to be subscribed", func() bool { return waiter.broker.Heard(channel).Live })
			redistest.Eventually(t, enough, "its attempt after that", func() bool { return s.asked.Load() > 1 })
			c.hurt(p)
			s.ends("the waiter that hears nothing")

			redistest.Eventually(t, enough, "the silence to be noticed", func() bool { return !waiter.broker.Up.Load() })
			s.wait()
			redistest.Eventually(t, enough, "many attempts while nothing can be heard", func() bool { return s.asked.Load() > 20 })
			s.ends("the waiter that knows it hears nothing")

			c.heal(p)
			redistest.Eventually(t, enough, "the subscription to be back", func() bool {
				return waiter.broker.Up.Load() && server.PubSubClients() == 2
			})
			s.wait()
			s.ends("a waiter after that")
		})
	}
}
