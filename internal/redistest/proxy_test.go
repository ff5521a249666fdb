package redistest_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// through returns a server, a proxy to it, and a client of the proxy that never retries.
func through(t *testing.T, mod ...func(*rueidis.ClientOption)) (*redistest.Server, *redistest.Proxy, rueidis.Client) {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := s.Client(t, append(mod, func(o *rueidis.ClientOption) {
		o.InitAddress = []string{p.Addr()}
		o.DisableRetry = true
		o.PipelineMultiplex = -1 // one connection
	})...)
	return s, p, c
}

func pipelined(o *rueidis.ClientOption) { o.AlwaysPipelining = true }

func get(t testing.TB, s *redistest.Server, key string) any {
	t.Helper()
	v, err := s.Do("GET", key)
	require.NoError(t, err)
	return v
}

func contains(s string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(s)) }
}

func landed(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatal("the reply was never dropped")
	}
}

func TestDelayIsLatencyAndNotAThrottle(t *testing.T) {
	t.Parallel()
	_, p, c := through(t, pipelined)
	const (
		delay = 100 * time.Millisecond
		calls = 200
	)
	set(t, c, "k", "v")
	p.Delay(delay)
	start := time.Now()
	set(t, c, "k", "v")
	require.GreaterOrEqual(t, time.Since(start), 2*delay)

	// One after the other these calls would take 40 seconds.
	start = time.Now()
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			time.Sleep(time.Until(start.Add(time.Millisecond)))
			if err := do(t, c, "INCR", "n").Error(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Less(t, time.Since(start), calls*delay/4)
	p.Delay(0)
	n, err := do(t, c, "GET", "n").AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(calls), n)
}

func TestBlackholeKeepsConnectionsOpenUntilHealed(t *testing.T) {
	t.Parallel()
	s, p, c := through(t)
	quiet, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer quiet.Close()
	redistest.Eventually(t, soon, "both connections", func() bool { return p.Connections() == 2 })

	p.Blackhole(true)
	failed := make(chan error, 1)
	go func() { failed <- c.Do(context.Background(), c.B().Set().Key("k").Value("v").Build()).Error() }()
	redistest.Eventually(t, soon, "bytes swallowed", func() bool { return p.Dropped() > 0 })
	require.Equal(t, 2, p.Connections())
	select {
	case err := <-failed:
		t.Fatalf("the call ended in the blackhole: %v", err)
	default:
	}
	p.Blackhole(false)
	require.Equal(t, 1, p.Connections(), "only the connection that lost nothing goes on")
	require.Error(t, <-failed)
	require.Nil(t, get(t, s, "k"))
	_, err = fmt.Fprint(quiet, "PING\r\n")
	require.NoError(t, err)
	reply := make([]byte, 7)
	_, err = quiet.Read(reply)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", string(reply))
	redistest.Eventually(t, soon, "the client to work again", func() bool {
		return do(t, c, "SET", "k", "v").Error() == nil
	})
}

func TestDroppedReplyIsOfTheRequestThatMatched(t *testing.T) {
	t.Parallel()
	s, p, c := through(t, pipelined)
	gone := p.DropReplies(contains("victim"))
	results := c.DoMulti(context.Background(),
		c.B().Set().Key("before").Value("1").Build(),
		c.B().Get().Key("before").Build(),
		c.B().Set().Key("victim").Value("2").Build(),
		c.B().Set().Key("after").Value("3").Build())
	require.NoError(t, results[0].Error())
	got, err := results[1].ToString()
	require.NoError(t, err)
	require.Equal(t, "1", got)
	require.Error(t, results[2].Error())
	require.Error(t, results[3].Error())
	landed(t, gone)
	require.Equal(t, "2", get(t, s, "victim"), "the request must have been executed")
	redistest.Eventually(t, soon, "the order to have been used up", func() bool {
		return do(t, c, "SET", "victim", "4").Error() == nil
	})
}

func TestDroppedReplyIsFoundAmongPushes(t *testing.T) {
	t.Parallel()
	_, p, c := through(t)
	const (
		rounds   = 40
		channels = 3
	)
	for round := range rounds {
		dedicated, release := c.Dedicate()
		closed := dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		name := func(i int) string { return fmt.Sprintf("c%d-%d", round, i) }
		// The confirmations of a subscription are no replies, and neither are messages.
		subscribe := dedicated.B().Subscribe().Channel(name(0), name(1), name(2)).Build()
		require.NoError(t, dedicated.Do(context.Background(), subscribe).Error())
		gone := p.DropReplies(contains("victim"))
		for i := range channels {
			require.NoError(t, dedicated.Do(context.Background(), dedicated.B().Publish().Channel(name(i)).Message("m").Build()).Error())
		}
		require.Error(t, dedicated.Do(context.Background(), dedicated.B().Echo().Message("victim").Build()).Error())
		landed(t, gone)
		require.Error(t, <-closed)
		release()
	}
}
