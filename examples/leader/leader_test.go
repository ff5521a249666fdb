package main

import (
	"io"
	"log"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "worker", main) }

// start starts a worker in a process of its own.
func start(t *testing.T, out *redistest.Buffer, args ...string) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "worker", append([]string{"-workers=1", "-pace=20ms"}, args...)...)
	p.Copy(out)
	return p
}

// A record is what workers have printed.
type record struct {
	leads   map[string]int64 // the last token of each worker
	stopped map[string]bool  // who has stopped since
	steps   map[int]int64    // the token of each
	worker  string           // of the last step
	token   int64            // of it
}

var lines = regexp.MustCompile(`(?m)^worker (\S+): (leading|stopped|step (\d+))(?:, token (\d+))?`)

// read fails if a worker has done a step without leading, or if steps do not have tokens in order. Lines of
// several processes arrive in any order, steps are in one.
func read(t *testing.T, out *redistest.Buffer) record {
	t.Helper()
	r := record{leads: map[string]int64{}, stopped: map[string]bool{}, steps: map[int]int64{}}
	last := 0
	for _, m := range lines.FindAllStringSubmatch(out.String(), -1) {
		worker, what := m[1], m[2]
		token, _ := strconv.ParseInt(m[4], 10, 64)
		switch what {
		case "leading":
			r.leads[worker], r.stopped[worker] = token, false
		case "stopped":
			r.stopped[worker] = true
		default:
			require.Positive(t, token)
			require.Equal(t, r.leads[worker], token, "%s works under another token than it leads under", worker)
			require.False(t, r.stopped[worker], "%s works and does not lead", worker)
			n, _ := strconv.Atoi(m[3])
			r.steps[n] = token
			if n > last {
				last, r.worker, r.token = n, worker, token
			}
		}
	}
	before := int64(0)
	for _, n := range slices.Sorted(maps.Keys(r.steps)) {
		require.LessOrEqual(t, before, r.steps[n], "step %d is under an older token than the one before", n)
		before = r.steps[n]
	}
	return r
}

// until waits for a state of the workers, and returns it.
func until(t *testing.T, out *redistest.Buffer, what string, reached func(r record) bool) (r record) {
	t.Helper()
	redistest.Eventually(t, time.Minute, what, func() bool {
		r = read(t, out)
		return reached(r)
	})
	return r
}

func TestLeaderStopsWhenItsLockIsForcedOpen(t *testing.T) {
	server := redistest.Start(t)
	operator := kit.NewSession(t, server, relock.WithPrefix("leader:"))
	var out redistest.Buffer
	for range 3 {
		start(t, &out, "-redis", server.Addr(), "-lease=1m") // only force ends its lock
	}
	leader := until(t, &out, "leader", func(r record) bool { return r.token > 0 })
	for range 5 {
		opened, err := operator.ForceUnlock(t.Context(), lock)
		require.NoError(t, err)
		require.True(t, opened)
		old := leader
		leader = until(t, &out, "step of the next leader", func(r record) bool {
			return r.token > old.token && (r.stopped[old.worker] || r.leads[old.worker] > old.token)
		})
	}
}

func TestAnotherLeadsWhenTheLeaderIsGone(t *testing.T) {
	server := redistest.Start(t)
	outs := make(map[*redistest.Buffer]*redistest.Proc)
	for range 3 {
		out := new(redistest.Buffer)
		outs[out] = start(t, out, "-redis", server.Addr(), "-lease=1s")
	}
	last := int64(0)
	next := func() (leader *redistest.Proc) {
		t.Helper()
		redistest.Eventually(t, time.Minute, "a leader", func() bool {
			for out, p := range outs {
				if r := read(t, out); r.token > last {
					last, leader = r.token, p
				}
			}
			return leader != nil
		})
		return leader
	}
	next().Kill()
	require.NoError(t, next().Interrupt())
	next()
}

func TestLeaderStepsDownAfterItsTermWhenAnotherWaits(t *testing.T) {
	server := redistest.Start(t)
	var out redistest.Buffer
	start(t, &out, "-redis", server.Addr(), "-lease=1m", "-term=50ms")
	first := until(t, &out, "leader", func(r record) bool { return r.token > 0 && len(r.steps) > 10 })
	require.False(t, first.stopped[first.worker], "nobody else waits")
	start(t, &out, "-redis", server.Addr(), "-lease=1m", "-term=50ms")
	until(t, &out, "turns of both", func(r record) bool {
		return len(r.leads) == 2 && r.leads[first.worker] > first.token
	})
}

func TestStepOfAFormerLeaderIsRefused(t *testing.T) {
	w := &worker{client: redistest.Start(t).Client(t), log: log.New(io.Discard, "", 0)}
	step := func(token int64) error {
		_, err := w.step(t.Context(), token)
		return err
	}
	require.NoError(t, step(7))
	require.NoError(t, step(8))
	require.ErrorContains(t, step(7), "STALE")
	require.NoError(t, step(8))
}
