package faults_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A dialer holds up the client's dials as long as it is shut, as a host does that
// drops packets.
type dialer struct {
	gate    chan struct{} // holds a token while the dialer is open
	waiting atomic.Int32  // dials that wait and end with a context
}

func (d *dialer) shut() { <-d.gate }

func (d *dialer) open() { d.gate <- struct{}{} }

func (d *dialer) option(o *rueidis.ClientOption) {
	o.DialCtxFn = func(ctx context.Context, addr string, n *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if ctx.Done() != nil {
			d.waiting.Add(1)
			defer d.waiting.Add(-1)
		}
		select {
		case <-d.gate:
			d.gate <- struct{}{}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return n.DialContext(ctx, "tcp", addr)
	}
}

// The client dials with the context of the call that was first, and gives the error
// of that context to everybody who waits for the connection. Those calls failed, with
// the end of a context that was not theirs.
func TestEndOfAnotherCallsContextIsNoError(t *testing.T) {
	t.Parallel()
	s, p := kit.Proxied(t)
	d := &dialer{gate: make(chan struct{}, 1)}
	d.open()
	session := kit.SessionOn(t, kit.NewClient(t, p, d.option))
	held, wanted := session.Mutex("held"), session.Mutex("wanted")
	goesOn(t, held, wanted)
	kit.Lock(t, kit.Background, held)

	d.shut()
	p.Cut()
	ctx, cancel := context.WithCancel(kit.Background)
	first := kit.Async(func() error { return session.Mutex("first").Lock(ctx) })
	redistest.Eventually(t, kit.Soon, "the first call to dial", func() bool { return d.waiting.Load() == 1 })
	unlocked := kit.Async(func() error { return held.Unlock(kit.Background) })
	locked := kit.Async(func() error { return wanted.Lock(kit.Background) })
	time.Sleep(50 * time.Millisecond) // they wait for the first one's connection
	cancel()
	require.ErrorIs(t, kit.Receive(t, first, "the first call"), context.Canceled)
	time.Sleep(50 * time.Millisecond)
	require.Zero(t, len(unlocked), "Unlock has not reached Redis")
	require.Zero(t, len(locked), "Lock has not reached Redis")
	d.open()
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
	require.NoError(t, kit.Receive(t, locked, "Lock"))
	freed(t, s, "held")
	kit.Unlock(t, kit.Background, wanted)
}
