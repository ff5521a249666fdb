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
func through(t *testing.T) (*redistest.Server, *redistest.Proxy, rueidis.Client) {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	return s, p, s.Client(t, func(o *rueidis.ClientOption) {
		o.InitAddress = []string{p.Addr()}
		o.DisableRetry, o.AlwaysPipelining = true, true
		o.PipelineMultiplex = -1 // one connection
	})
}

func TestDelayIsLatencyAndNotAThrottle(t *testing.T) {
	t.Parallel()
	_, p, c := through(t)
	const delay, calls = 100 * time.Millisecond, 200
	p.Delay(delay)
	start := time.Now()
	set(t, c, "k", "v")
	require.GreaterOrEqual(t, time.Since(start), 2*delay)

	// One after the other these calls would take 40 seconds.
	start = time.Now()
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if err := do(t, c, "INCR", "n").Error(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Less(t, time.Since(start), calls*delay/4)
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
	got, err := s.Do("GET", "k")
	require.NoError(t, err)
	require.Nil(t, got)
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

func TestExistingConnectionsStayBehindANewTarget(t *testing.T) {
	t.Parallel()
	s, p, c := through(t)
	other := redistest.Start(t)
	set(t, c, "k", "old")
	p.Retarget(other.Addr())
	set(t, c, "k", "still old")
	p.Cut()
	redistest.Eventually(t, soon, "a new connection", func() bool { return do(t, c, "SET", "k", "new").Error() == nil })
	for server, want := range map[*redistest.Server]string{s: "still old", other: "new"} {
		got, err := server.Do("GET", "k")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestOnlyExistingConnectionsAreHeldOrForgotten(t *testing.T) {
	t.Parallel()
	s, p, c := through(t)
	pending := func() <-chan error {
		result := make(chan error, 1)
		go func() { result <- c.Do(context.Background(), c.B().Incr().Key("n").Build()).Error() }()
		return result
	}
	news := func() {
		t.Helper()
		fresh := s.Client(t, func(o *rueidis.ClientOption) { o.InitAddress = []string{p.Addr()} })
		set(t, fresh, "k", "v")
	}
	p.Hold(true)
	held := pending()
	news()
	require.Empty(t, held)
	p.Hold(false)
	require.NoError(t, <-held)

	p.Forget()
	lost := pending()
	news()
	redistest.Eventually(t, soon, "the request to vanish", func() bool { return p.Dropped() > 0 })
	require.Empty(t, lost)
	p.Cut()
	require.Error(t, <-lost)
	got, err := s.Do("GET", "n")
	require.NoError(t, err)
	require.Equal(t, "1", got)
}

func TestDroppedReplyIsOfTheRequestThatMatched(t *testing.T) {
	t.Parallel()
	s, p, c := through(t)
	gone := p.DropReplies(func(request []byte) bool { return bytes.Contains(request, []byte("victim")) })
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
	select {
	case <-gone:
	case <-time.After(soon):
		t.Fatal("the reply was never dropped")
	}
	victim, err := s.Do("GET", "victim")
	require.NoError(t, err)
	require.Equal(t, "2", victim, "the request must have been executed")
	redistest.Eventually(t, soon, "the order to have been used up", func() bool {
		return do(t, c, "SET", "victim", "4").Error() == nil
	})
}
