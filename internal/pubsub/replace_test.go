package pubsub

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Names that are contended for a moment and then no more, thousands of them: the
// connection is replaced every ten seconds at most, and a listener that stays is
// subscribed all the time and is not woken.
func TestNamesThatComeAndGoCostNoSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var woken, dials, absent atomic.Int64
	b := newBroker(t, server.Client(t, func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dials.Add(1)
			return d.DialContext(ctx, "tcp", addr)
		}
	}))
	constant := b.SubscribeFunc("constant", func() { woken.Add(1) })
	defer constant.Unsubscribe()
	redistest.Eventually(t, enough, "the constant channel", constant.Live)
	var watch sync.WaitGroup
	watching, stop := context.WithCancel(context.Background())
	defer watch.Wait()
	defer stop()
	client := server.Client(t)
	watch.Go(func() {
		for watching.Err() == nil {
			reply, err := client.Do(watching, client.B().PubsubNumsub().Channel("constant").Build()).AsIntMap()
			if err == nil && reply["constant"] == 0 {
				absent.Add(1)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	before, start, signals := dials.Load(), time.Now(), woken.Load()

	var last []*Listener
	wave := 0
	for ; time.Since(start) < 13*time.Second || dials.Load() == before; wave++ {
		require.Less(t, time.Since(start), time.Minute, "the connection is never replaced")
		var now []*Listener
		for i := range 300 {
			now = append(now, b.SubscribeFunc(fmt.Sprint("wave ", wave, " ", i), func() {}))
		}
		redistest.Eventually(t, enough, "the new channels to be subscribed", func() bool {
			return now[0].Live() && now[len(now)-1].Live()
		})
		for _, l := range last {
			l.Unsubscribe()
		}
		last = now
		time.Sleep(50 * time.Millisecond)
	}
	for _, l := range last {
		l.Unsubscribe()
	}
	most := int64(time.Since(start) / maxStaleAge)
	require.LessOrEqual(t, dials.Load()-before, most, "connections in %v", time.Since(start))
	redistest.Eventually(t, time.Minute, "the old channels to be forgotten", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.subs) == 2
	})
	redistest.Eventually(t, enough, "the old connection to be closed", func() bool { return server.PubSubClients() == 1 })
	require.Zero(t, absent.Load(), "times that the constant channel had no subscriber")
	require.Zero(t, woken.Load()-signals, "times that its listener was woken")
	t.Logf("%d channels in %v, %d connections", 300*wave, time.Since(start), dials.Load()-before)
}
