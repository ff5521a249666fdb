package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
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
	redistest.RunChild(map[string]func([]string){"worker": func(args []string) {
		os.Args = append(os.Args[:1], args...)
		main()
	}})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// event is a line of a worker.
type event struct {
	proc   *redistest.Proc // nil in memory
	worker string
	what   string // leading, step, stopped
	step   int
	token  int64
}

// parse returns the event of a line, and false if it is none.
func parse(line string) (event, bool) {
	worker, text, _ := strings.Cut(strings.TrimPrefix(line, "worker "), ": ")
	e := event{worker: worker}
	e.what, _, _ = strings.Cut(strings.TrimSuffix(text, ","), " ")
	switch e.what = strings.Trim(e.what, ",:"); e.what {
	case "leading":
		_, _ = fmt.Sscanf(text, "leading, token %d", &e.token)
	case "step":
		_, _ = fmt.Sscanf(text, "step %d, token %d", &e.step, &e.token)
	case "stopped":
	default:
		return event{}, false
	}
	return e, true
}

// follower reads what workers print, and fails if anything is out of order: a step of one
// that does not lead, or under a token smaller than that of the step before.
type follower struct {
	t      *testing.T
	events chan event
	leads  map[string]int64 // token of each worker that leads
	newest int64
	steps  int
}

func newFollower(t *testing.T) *follower {
	return &follower{t: t, events: make(chan event), leads: map[string]int64{}}
}

// start starts a worker in a process of its own.
func (f *follower) start(args ...string) {
	f.t.Helper()
	p := redistest.Child(f.t, "worker", append([]string{"-workers=1", "-pace=20ms"}, args...)...)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for {
			line, err := p.Line(time.Hour)
			if err != nil {
				return
			}
			if e, ok := parse(line); ok {
				e.proc = p
				f.events <- e
			}
		}
	}()
	f.t.Cleanup(func() {
		p.Kill()
		for {
			select {
			case <-f.events:
			case <-sent:
				return
			}
		}
	})
}

// until returns the next event that is wanted.
func (f *follower) until(what string, want func(event) bool) event {
	f.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-f.events:
			f.check(e)
			if want(e) {
				return e
			}
		case <-late:
			f.t.Fatalf("in a minute, no %s", what)
		}
	}
}

func (f *follower) check(e event) {
	f.t.Helper()
	switch e.what {
	case "leading":
		f.leads[e.worker] = e.token
	case "stopped":
		delete(f.leads, e.worker)
	case "step":
		if e.token == 0 || f.leads[e.worker] != e.token {
			f.t.Errorf("%s works under %d, and leads under %d", e.worker, e.token, f.leads[e.worker])
		}
		// Lines of several processes arrive in any order, steps are in one.
		if e.step > f.steps {
			f.steps = e.step
			if e.token < f.newest {
				f.t.Errorf("step %d under token %d, after one under %d", e.step, e.token, f.newest)
			}
			f.newest = max(f.newest, e.token)
		}
	}
}

func TestLeaderStopsWhenItsLockIsForcedOpen(t *testing.T) {
	server := redistest.Start(t)
	operator, err := relock.NewSession(t.Context(), server.Client(t), relock.WithPrefix("leader:"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Close(context.Background()) })
	f := newFollower(t)
	for range 3 {
		f.start("-redis", server.Addr(), "-lease=1m") // only force ends its lock
	}
	leader := f.until("leader", func(e event) bool { return e.what == "step" })
	for range 5 {
		if ok, err := operator.ForceUnlock(t.Context(), lock); !ok || err != nil {
			t.Fatalf("ForceUnlock: %v, %v", ok, err)
		}
		old := leader
		stopped := false
		leader = f.until("step of the next leader, after the last has stopped", func(e event) bool {
			stopped = stopped || e.what == "stopped" && e.worker == old.worker
			return stopped && e.what == "step" && e.token > old.token
		})
	}
}

func TestAnotherLeadsWhenTheLeaderIsKilledOrInterrupted(t *testing.T) {
	server := redistest.Start(t)
	f := newFollower(t)
	for range 3 {
		f.start("-redis", server.Addr(), "-lease=1s")
	}
	leader := f.until("leader", func(e event) bool { return e.what == "step" })
	leader.proc.Kill()
	next := f.until("leader after the killed one", func(e event) bool { return e.what == "step" && e.token > leader.token })
	require.NoError(t, syscall.Kill(next.proc.PID(), syscall.SIGINT))
	f.until("leader after the interrupted one", func(e event) bool { return e.what == "step" && e.token > next.token })
	if err := next.proc.Wait(); err != nil {
		t.Errorf("interrupted, the leader ended with %v", err)
	}
}

func TestWorkersInMemoryTakeTurns(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	f := newFollower(t)
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go redistest.WithoutFIPS(func() { // the Redis in memory computes SHA-1
		ended <- run(ctx, []string{"-pace=20ms", "-lease=1m"}, w)
		_ = w.Close()
	})
	go func() {
		defer close(f.events)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if e, ok := parse(lines.Text()); ok {
				f.events <- e
			}
		}
	}()
	for range 3 {
		f.until("leader that was deposed", func(e event) bool { return e.what == "stopped" })
	}
	interrupt()
	for e := range f.events {
		f.check(e)
	}
	assert.NoError(t, <-ended)
}

func TestStepOfAFormerLeaderIsRefused(t *testing.T) {
	w := &worker{client: redistest.Start(t).Client(t), log: log.New(io.Discard, "", 0)}
	for i, step := range []struct {
		token int64
		err   string
	}{{7, ""}, {8, ""}, {7, "STALE"}, {8, ""}} {
		_, err := w.step(t.Context(), step.token)
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("step %d, token %d: %v, want %q", i, step.token, err, step.err)
		}
	}
}
