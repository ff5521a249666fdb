package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, listening))
}

// pay asks for the payment of an order and returns the status.
func pay(t *testing.T, url, order string) int {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post(url+"/orders/"+order+"/payment", "", nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = answer.Body.Close()
	if late := answer.StatusCode == http.StatusLocked || answer.StatusCode == http.StatusServiceUnavailable; late != (answer.Header.Get("Retry-After") != "") {
		t.Errorf("%s: Retry-After is %q", answer.Status, answer.Header.Get("Retry-After"))
	}
	return answer.StatusCode
}

// crowd asks many times at once, at all addresses in turn, and counts the answers.
func crowd(t *testing.T, urls []string, order string) map[int]int {
	t.Helper()
	var mu sync.Mutex // protects answers
	answers := map[int]int{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			status := pay(t, urls[i%len(urls)], order)
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
		})
	}
	wg.Wait()
	return answers
}

func TestOrderIsChargedOnceInMemory(t *testing.T) {
	url := serve(t, io.Discard, "-timeout=1m", "-bank=5ms")
	if got, want := crowd(t, []string{url}, "7"), (map[int]int{201: 1, 409: 39}); !maps.Equal(got, want) {
		t.Errorf("answers: %v, want %v", got, want)
	}
	if got := pay(t, url, "{"); got != 400 {
		t.Errorf("an order whose name is refused: %d", got)
	}
}

func TestOrderIsChargedOnceByTwoProcesses(t *testing.T) {
	server := redistest.Start(t)
	p, a := process(t, "-redis", server.Addr(), "-timeout=1m", "-bank=20ms")
	_, b := process(t, "-redis", server.Addr(), "-timeout=1m", "-bank=20ms")
	for _, order := range []string{"1", "2", "3"} {
		if got, want := crowd(t, []string{a, b}, order), (map[int]int{201: 1, 409: 39}); !maps.Equal(got, want) {
			t.Errorf("order %s: answers %v, want %v", order, got, want)
		}
		if n, err := server.Do("LLEN", "orders:charges:"+order); n != int64(1) || err != nil {
			t.Errorf("order %s: charged %v times, %v", order, n, err)
		}
	}
	if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("interrupted, the service ended with %v", err)
	}
}

// operator returns a session that shares the locks of the service.
func operator(t *testing.T, server *redistest.Server) *relock.Session {
	t.Helper()
	s, err := relock.NewSession(t.Context(), server.Client(t), relock.WithPrefix("orders:lock:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestOrderThatIsBeingPaidIsLocked(t *testing.T) {
	server := redistest.Start(t)
	_, url := process(t, "-redis", server.Addr(), "-timeout=300ms", "-bank=1ms")
	m := operator(t, server).Mutex("7")
	if err := m.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := pay(t, url, "7"); got != 423 {
		t.Errorf("while somebody else has the lock: %d, want 423", got)
	}
	if err := m.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, time.Minute, "payment", func() bool { // 300 ms may be too short here
		return pay(t, url, "7") == 201
	})
	if got := pay(t, url, "7"); got != 409 {
		t.Errorf("again: %d, want 409", got)
	}
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
	if got := <-status; got != 503 {
		t.Errorf("after the loss of the lock: %d, want 503", got)
	}
	if n, err := server.Do("LLEN", "orders:charges:7"); n != int64(0) || err != nil {
		t.Errorf("charged %v times without the lock, %v", n, err)
	}
	redistest.Eventually(t, time.Minute, "the loss in the log", func() bool {
		return strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), "7")
	})
}

func TestMistakesAreExplained(t *testing.T) {
	for arg, want := range map[string]string{
		"-addr=nowhere:http:x": "too many colons",
		"-redis=127.0.0.1:1":   "cannot use Redis at 127.0.0.1:1: dial",
	} {
		err := error(nil)
		redistest.WithoutFIPS(func() { err = run(t.Context(), []string{arg}, io.Discard, io.Discard) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
