package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"cron": func(args []string) {
		os.Args = append(os.Args[:1], args...)
		main()
	}})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// ticks returns how often the job was started and done for each tick that some host looked at.
func ticks(out string) (looked, started, done map[string]int) {
	looked, started, done = map[string]int{}, map[string]int{}, map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^host \S+: (\d\S+): (started|done|done already)$`).FindAllStringSubmatch(out, -1) {
		looked[m[1]]++
		switch m[2] {
		case "started":
			started[m[1]]++
		case "done":
			done[m[1]]++
		}
	}
	return looked, started, done
}

// onceEach fails if the job was done twice for a tick, or not at all for one that a host
// looked at. Each interrupted host may have left one tick undone, or done without saying so.
func onceEach(t *testing.T, out string, interrupted int) {
	t.Helper()
	looked, started, done := ticks(out)
	for tick := range looked {
		if done[tick] == 0 {
			interrupted--
		}
		if done[tick] > 1 || interrupted < 0 {
			t.Fatalf("tick %s: started %d times, done %d times\n%s", tick, started[tick], done[tick], out)
		}
	}
}

// enough reports whether three hosts have all looked at some ticks.
func enough(out string) bool {
	looked, _, _ := ticks(out)
	all := 0
	for _, lines := range looked {
		if lines >= 4 { // one of them did the job, and has two
			all++
		}
	}
	return all >= 10
}

func TestHostsInMemoryDoEachTickOnce(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var out redistest.Buffer
	ended := make(chan error, 1)
	go redistest.WithoutFIPS(func() { // the Redis in memory computes SHA-1
		ended <- run(ctx, []string{"-every=50ms", "-work=5ms", "-lease=1m"}, &out)
	})
	redistest.Eventually(t, time.Minute, "ten ticks", func() bool { return enough(out.String()) })
	interrupt()
	require.NoError(t, <-ended)
	onceEach(t, out.String(), 1)
}

// startHost starts a process with one host and appends its lines to out.
func startHost(t *testing.T, out *redistest.Buffer, args ...string) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "cron", args...)
	p.Copy(out)
	return p
}

func TestProcessesOnServerDoEachTickOnce(t *testing.T) {
	server := redistest.Start(t)
	var out redistest.Buffer
	args := []string{"-redis", server.Addr(), "-hosts=1", "-every=100ms", "-work=10ms", "-lease=1m"}
	hosts := []*redistest.Proc{startHost(t, &out, args...), startHost(t, &out, args...), startHost(t, &out, args...)}
	redistest.Eventually(t, time.Minute, "ten ticks", func() bool { return enough(out.String()) })
	for _, p := range hosts {
		require.NoError(t, syscall.Kill(p.PID(), syscall.SIGINT))
		if err := p.Wait(); err != nil {
			t.Errorf("interrupted, a host ended with %v", err)
		}
	}
	onceEach(t, out.String(), len(hosts))
}

func TestJobOfAKilledHostIsDone(t *testing.T) {
	server := redistest.Start(t)
	args := []string{"-redis", server.Addr(), "-hosts=1", "-every=1s", "-lease=1s"}
	var first, second redistest.Buffer
	killed := startHost(t, &first, append(args, "-work=1h")...)
	redistest.Eventually(t, time.Minute, "the job to start", func() bool { return strings.Contains(first.String(), "started") })
	startHost(t, &second, append(args, "-work=1ms")...)
	killed.Kill()
	redistest.Eventually(t, time.Minute, "another host to do the job", func() bool { return strings.Contains(second.String(), "done") })
	onceEach(t, second.String(), 1) // it may be at the next
}
