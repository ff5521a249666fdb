package main

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "cron", main) }

// ticks returns how many lines there are for each tick that some host looked at, and how often its job was done.
func ticks(out string) (lines, done map[string]int) {
	lines, done = map[string]int{}, map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^host \S+: (\d\S+): (started|done|done already)$`).FindAllStringSubmatch(out, -1) {
		lines[m[1]]++
		if m[2] == "done" {
			done[m[1]]++
		}
	}
	return lines, done
}

// onceEach fails if the job was done twice for a tick, or not at all for one that a host
// looked at. Each interrupted host may have left one tick undone, or done without saying so.
func onceEach(t *testing.T, out string, interrupted int) {
	t.Helper()
	lines, done := ticks(out)
	for tick := range lines {
		require.LessOrEqual(t, done[tick], 1, "tick %s\n%s", tick, out)
		interrupted -= 1 - done[tick]
	}
	require.GreaterOrEqual(t, interrupted, 0, out)
}

// tenTicks waits until three hosts have all looked at some ticks.
func tenTicks(t *testing.T, out *redistest.Buffer) {
	t.Helper()
	redistest.Eventually(t, time.Minute, "ten ticks", func() bool {
		lines, _ := ticks(out.String())
		maps.DeleteFunc(lines, func(_ string, n int) bool { return n < 4 }) // one of them did the job, and has two
		return len(lines) >= 10
	})
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
	tenTicks(t, &out)
	for _, p := range hosts {
		require.NoError(t, p.Interrupt())
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
