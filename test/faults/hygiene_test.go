package faults_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func init() { kit.Roles["faults-hygiene"] = faultsHygiene }

// faultsHygiene is a process with a server and a proxy of its own, so that all of its
// goroutines and connections can be counted. It goes through one outage, with holds,
// waiters, and calls that come and give up all the time.
func faultsHygiene(args []string) { // directory, outage
	const lease, waiters = 300 * time.Millisecond, 50
	server, err := redistest.Launch(args[0])
	kit.ChildCheck(err)
	proxy, err := redistest.OpenProxy(server.Addr())
	kit.ChildCheck(err)
	idle := runtime.NumGoroutine()
	goroutines := func(most int) {
		if n := runtime.NumGoroutine() - idle; n > most {
			kit.ChildCheck(fmt.Errorf("%d goroutines, want at most %d", n, most))
		}
	}
	s, client := kit.ChildSession(proxy.Addr(), relock.WithLease(lease))
	var held []*relock.Mutex
	waiting := make(chan error, waiters)
	ctx, cancel := context.WithCancel(kit.Background)
	for i := range waiters {
		m, next := s.Mutex(fmt.Sprint("held ", i)), s.Mutex(fmt.Sprint("held ", i))
		kit.ChildCheck(m.Lock(kit.Background))
		held = append(held, m)
		go func() { waiting <- next.Lock(ctx) }()
	}
	goroutines(100)

	o := kit.Outages[slices.IndexFunc(kit.Outages, func(o kit.Outage) bool { return o.Name == args[1] })]
	o.Begin(server, proxy)
	for end := time.Now().Add(3 * lease); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(kit.Background, 5*time.Millisecond)
		if err := s.Mutex("tried").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			kit.ChildCheck(fmt.Errorf("Lock during the outage: %w", err))
		}
		cancel()
		goroutines(1000)
	}
	for _, m := range held {
		if err := m.Unlock(kit.Background); !errors.Is(err, relock.ErrLost) {
			kit.ChildCheck(fmt.Errorf("Unlock during the outage: %w", err))
		}
	}
	o.Heal(server, proxy)
	for range waiters / 2 { // some get in, the others give up
		kit.ChildCheck(<-waiting)
	}
	cancel()
	for range waiters - waiters/2 {
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			kit.ChildCheck(err)
		}
	}
	fmt.Println("connections", proxy.Connections())
	kit.ChildCheck(s.Close(kit.Background))
	client.Close()
	for proxy.Connections() > 0 {
		time.Sleep(time.Millisecond)
	}
	left, err := server.Do("KEYS", "held*")
	kit.ChildCheck(err)
	fmt.Println("keys", left)
	proxy.Close()
	server.Close()
	// What reads the input is the kit's.
	kit.ChildCheck(goleak.Find(goleak.IgnoreAnyFunction("github.com/relock-go/relock/internal/redistest.runRole.func1")))
	fmt.Println("no leaks")
}

func TestNothingIsLeftAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, o := range kit.Outages {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			redistest.Start(t) // or no server can be started
			p := redistest.Child(t, "faults-hygiene", t.TempDir(), o.Name)
			text, err := p.Expect("connections ", 2*kit.Soon)
			require.NoError(t, err)
			n, err := strconv.Atoi(text)
			require.NoError(t, err)
			require.LessOrEqual(t, n, 3, "the shared one, the subscriptions, and one that is on its way out")
			left, err := p.Expect("keys ", kit.Soon)
			require.NoError(t, err)
			require.Equal(t, "[]", left)
			_, err = p.Expect("no leaks", kit.Soon)
			require.NoError(t, err)
			require.NoError(t, p.Wait())
		})
	}
}
