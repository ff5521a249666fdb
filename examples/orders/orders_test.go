package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"orders": func(args []string) {
		os.Args = append(os.Args[:1], args...)
		main()
	}})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

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
	ctx, interrupt := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go redistest.WithoutFIPS(func() { // the Redis in memory computes SHA-1
		err := run(ctx, append([]string{"-addr=127.0.0.1:0"}, args...), w, log)
		_ = w.CloseWithError(io.EOF)
		ended <- err
	})
	t.Cleanup(func() {
		interrupt()
		assert.NoError(t, <-ended)
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

// onceInACrowd asks many times at once, at all addresses in turn, for the payment of an order, which happens once.
func onceInACrowd(t *testing.T, order string, urls ...string) {
	t.Helper()
	const crowd = 40
	var paid atomic.Int64
	var wg sync.WaitGroup
	for i := range crowd {
		wg.Go(func() {
			if status := pay(t, urls[i%len(urls)], order); status == http.StatusCreated {
				paid.Add(1)
			} else {
				assert.Equal(t, http.StatusConflict, status)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, paid.Load())
}

func TestOrderIsChargedOnceInMemory(t *testing.T) {
	url := serve(t, io.Discard, "-timeout=1m", "-bank=5ms")
	onceInACrowd(t, "7", url)
	require.Equal(t, 400, pay(t, url, "{"))
}

func TestOrderIsChargedOnceByTwoProcesses(t *testing.T) {
	server := redistest.Start(t)
	p, a := process(t, "-redis", server.Addr(), "-timeout=1m", "-bank=20ms")
	_, b := process(t, "-redis", server.Addr(), "-timeout=1m", "-bank=20ms")
	for _, order := range []string{"1", "2", "3"} {
		onceInACrowd(t, order, a, b)
		charged(t, server, order, 1)
	}
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGINT))
	require.NoError(t, p.Wait(), "interrupted")
}

// charged fails if an order was not charged so many times.
func charged(t *testing.T, server *redistest.Server, order string, want int64) {
	t.Helper()
	n, err := server.Do("LLEN", "orders:charges:"+order)
	require.NoError(t, err)
	require.Equal(t, want, n)
}

// operator returns a session that shares the locks of the service.
func operator(t *testing.T, server *redistest.Server) *relock.Session {
	t.Helper()
	s, err := relock.NewSession(t.Context(), server.Client(t), relock.WithPrefix("orders:lock:"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestOrderThatIsBeingPaidIsLocked(t *testing.T) {
	server := redistest.Start(t)
	_, url := process(t, "-redis", server.Addr(), "-timeout=300ms", "-bank=1ms")
	m := operator(t, server).Mutex("7")
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
	boss := operator(t, server)
	var log redistest.Buffer
	url := serve(t, &log, "-redis", server.Addr(), "-timeout=1m", "-bank=1m")
	status := make(chan int, 1)
	go func() { status <- pay(t, url, "7") }()
	redistest.Eventually(t, time.Minute, "the lock to be held and forced open", func() bool {
		ok, err := boss.ForceUnlock(t.Context(), "7")
		return ok && err == nil
	})
	require.Equal(t, 503, <-status)
	charged(t, server, "7", 0)
	redistest.Eventually(t, time.Minute, "the loss in the log", func() bool {
		return strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), "7")
	})
}
