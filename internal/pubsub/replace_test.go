package pubsub

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// watchPresence asks the server without a pause whether a channel has a subscriber, until
// the function it returns is called, which tells how often it had none.
func watchPresence(t *testing.T, s *redistest.Server, channel string) (absent func() int) {
	t.Helper()
	client, ctx := s.Client(t), context.Background()
	stop, result := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				result <- n
				return
			default:
			}
			reply, err := client.Do(ctx, client.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
			if err == nil && reply[channel] == 0 {
				n++
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	ended := false
	absent = func() int {
		ended = true
		close(stop)
		return <-result
	}
	t.Cleanup(func() {
		if !ended {
			absent()
		}
	})
	return absent
}

// Names that are contended for a moment and then no more, thousands of them: the
// connection is replaced every ten seconds at most, and a listener that stays is
// subscribed all the time and is not woken.
func TestNamesThatComeAndGoCostNoSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, dials := countedClient(t, server)
	b := newBroker(t, client)
	var woken atomic.Int64
	constant := b.SubscribeFunc("constant", func() { woken.Add(1) })
	defer constant.Unsubscribe()
	redistest.Eventually(t, enough, "the constant channel", func() bool { return b.subscribed("constant") })
	absent := watchPresence(t, server, "constant")
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
	require.Zero(t, absent(), "times that the constant channel had no subscriber")
	require.Zero(t, woken.Load()-signals, "times that its listener was woken")
	t.Logf("%d channels in %v, %d connections", 300*wave, time.Since(start), dials.Load()-before)
}
