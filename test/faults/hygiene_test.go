package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
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
func faultsHygiene(args []string) {
	const lease, waiters = 300 * time.Millisecond, 50
	server, err := redistest.Launch(args[0])
	kit.ChildCheck(err)
	proxy, err := redistest.OpenProxy(server.Addr())
	kit.ChildCheck(err)
	idle := runtime.NumGoroutine()
	s, client := kit.ChildSession(proxy.Addr(), relock.WithLease(lease))
	var o *kit.Outage
	for i := range kit.Outages {
		if kit.Outages[i].Name == args[1] {
			o = &kit.Outages[i]
		}
	}

	var held []*relock.Mutex
	for i := range waiters {
		m := s.Mutex(fmt.Sprint("held ", i))
		kit.ChildCheck(m.Lock(kit.Background))
		held = append(held, m)
	}
	waiting := make(chan error, waiters)
	ctx, cancel := context.WithCancel(kit.Background)
	for i := range waiters {
		m := s.Mutex(fmt.Sprint("held ", i))
		go func() { waiting <- m.Lock(ctx) }()
	}
	fmt.Println("held", runtime.NumGoroutine()-idle)

	o.Begin(server, proxy)
	most := 0
	for end := time.Now().Add(3 * lease); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(kit.Background, 5*time.Millisecond)
		err := s.Mutex("tried").Lock(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			kit.ChildCheck(fmt.Errorf("Lock during the outage: %w", err))
		}
		most = max(most, runtime.NumGoroutine()-idle)
	}
	for _, m := range held {
		if err := m.Unlock(kit.Background); !errors.Is(err, relock.ErrLost) {
			kit.ChildCheck(fmt.Errorf("Unlock during the outage: %w", err))
		}
	}
	fmt.Println("most", most)
	o.Heal(server, proxy)
	for range waiters / 2 { // some get in, the others give up
		kit.ChildCheck(<-waiting)
	}
	cancel()
	for range waiters - waiters/2 {
		if err := <-waiting; err != nil && !errors.Is(err, context.Canceled) {
			kit.ChildCheck(err)
		}
	}
	fmt.Println("connections", proxy.Connections())

	ctx, cancel = context.WithTimeout(kit.Background, kit.Soon)
	defer cancel()
	kit.ChildCheck(s.Close(ctx))
	client.Close()
	for end := time.Now().Add(kit.Quickly); proxy.Connections() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("connections", proxy.Connections())
	left, err := server.Do("KEYS", "held*")
	kit.ChildCheck(err)
	fmt.Println("keys", left)
	proxy.Close()
	server.Close()
	// What reads the input is the kit's.
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/relock-go/relock/internal/redistest.runRole.func1")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Println("leaks true")
	}
	fmt.Println("leaks false")
}

func TestNothingIsLeftAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, o := range kit.Outages {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			redistest.Start(t) // or no server can be started
			p := redistest.Child(t, "faults-hygiene", t.TempDir(), o.Name)
			number := func(what string) int {
				text, err := p.Expect(what+" ", 2*kit.Soon)
				require.NoError(t, err)
				n, err := strconv.Atoi(text)
				require.NoError(t, err)
				return n
			}
			require.Less(t, number("held"), 100)
			require.Less(t, number("most"), 1000, "goroutines during the outage")
			require.LessOrEqual(t, number("connections"), 3, "the shared one, the subscriptions, and one that is on its way out")
			require.Zero(t, number("connections"), "after Close")
			left, err := p.Expect("keys ", kit.Soon)
			require.NoError(t, err)
			require.Equal(t, "[]", left)
			leaks, err := p.Expect("leaks ", kit.Soon)
			require.NoError(t, err)
			require.Equal(t, "false", leaks)
			require.NoError(t, p.Wait())
		})
	}
}
