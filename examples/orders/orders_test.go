package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "orders", main) }

const listening = "listening on "

// process starts a process of the service and returns its address.
func process(t *testing.T, args ...string) (*redistest.Proc, string) {
	t.Helper()
	p := redistest.Child(t, "orders", append([]string{"-addr=127.0.0.1:0"}, args...)...)
	url, err := p.Expect(listening, time.Minute)
	require.NoError(t, err)
	return p, url
}

// serve runs the service in this process until the test ends, and returns its address.
func serve(t *testing.T, log io.Writer, args ...string) string {
	t.Helper()
	r, w := io.Pipe()
	redistest.Running(t, func(ctx context.Context) error {
		defer w.Close()
		return run(ctx, append([]string{"-addr=127.0.0.1:0"}, args...), w, log)
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, listening))
}

// pay asks for the payment of an order and returns the status.
func pay(t *testing.T, url, order string) int {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post(url+"/orders/"+order+"/payment", "", nil)
	if !assert.NoError(t, err) {
		return 0
	}
	_ = answer.Body.Close()
	late := answer.StatusCode == http.StatusLocked || answer.StatusCode == http.StatusServiceUnavailable
	assert.Equal(t, late, answer.Header.Get("Retry-After") != "", answer.Status)
	return answer.StatusCode
}

// Many ask at once, at both processes in turn, for the payment of an order.
func TestOrderIsChargedOnceByTwoProcesses(t *testing.T) {
	server := redistest.Start(t)
	p, a := process(t, "-redis", server.Addr(), "-timeout=1m", "-bank=20ms")
	_, b := process(t, "-redis", server.Addr(), "-timeout=1m", "-bank=20ms")
	for _, order := range []string{"1", "2", "3"} {
		var paid, conflicts atomic.Int64
		require.NoError(t, kit.Together(40, func(i int) error {
			switch pay(t, []string{a, b}[i%2], order) {
			case http.StatusCreated:
				paid.Add(1)
			case http.StatusConflict:
				conflicts.Add(1)
			}
			return nil
		}))
		require.Equal(t, []int64{1, 39}, []int64{paid.Load(), conflicts.Load()})
		charged(t, server, order, 1)
	}
	require.Equal(t, 400, pay(t, a, "{"))
	require.NoError(t, p.Interrupt())
}

// charged fails if an order was not charged so many times.
func charged(t *testing.T, server *redistest.Server, order string, want int64) {
	t.Helper()
	n, err := server.Do("LLEN", "orders:charges:"+order)
	require.NoError(t, err)
	require.Equal(t, want, n)
}

func TestOrderThatIsBeingPaidIsLocked(t *testing.T) {
	server := redistest.Start(t)
	_, url := process(t, "-redis", server.Addr(), "-timeout=300ms", "-bank=1ms")
	m := kit.NewSession(t, server, relock.WithPrefix("orders:lock:")).Mutex("7")
	require.NoError(t, m.Lock(t.Context()))
	require.Equal(t, 423, pay(t, url, "7"))
	require.NoError(t, m.Unlock(t.Context()))
	redistest.Eventually(t, time.Minute, "payment", func() bool { // 300 ms may be too short here
		return pay(t, url, "7") == 201
	})
	require.Equal(t, 409, pay(t, url, "7"))
}

func TestLostLockChargesNothingAndIsLogged(t *testing.T) {
	server := redistest.Start(t)
	operator := kit.NewSession(t, server, relock.WithPrefix("orders:lock:"))
	var log redistest.Buffer
	url := serve(t, &log, "-redis", server.Addr(), "-timeout=1m", "-bank=1m")
	status := make(chan int, 1)
	go func() { status <- pay(t, url, "7") }()
	redistest.Eventually(t, time.Minute, "the lock to be held and forced open", func() bool {
		ok, err := operator.ForceUnlock(t.Context(), "7")
		return ok && err == nil
	})
	require.Equal(t, 503, <-status)
	charged(t, server, "7", 0)
	redistest.Eventually(t, time.Minute, "the loss in the log", func() bool {
		return strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), "7")
	})
}
