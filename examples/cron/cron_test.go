package main

import (
	"context"
	"io"
	"log"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
)

func TestMain(m *testing.M) { redistest.RunMain(m, "cron", main) }

// A record counts for each tick how often its job was done.
type record struct {
	mu   sync.Mutex // protects done
	done map[time.Time]int
}

// host returns one with a job of 0.2 s that is recorded.
func (r *record) host(session *relock.Session) *host {
	return &host{session: session, every: time.Minute, log: log.New(io.Discard, "", 0),
		job: func(ctx context.Context, tick time.Time) error {
			if err := report(200*time.Millisecond)(ctx, tick); err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.done[tick]++
			return nil
		}}
}

// Clocks differ by up to a fifth of the period, and hosts are late by up to a tenth.
func TestEachTickIsDoneOnce(t *testing.T) {
	const ticks = 60
	synctest.Test(t, func(t *testing.T) {
		redis, start := relocktest.New(t), time.Now()
		r := &record{done: make(map[time.Time]int)}
		var hosts sync.WaitGroup
		for i, skew := range []time.Duration{-6, -4, -1, 0, 2, 6} {
			h := r.host(redis.Session())
			hosts.Go(func() {
				for n := 1; n <= ticks; n++ {
					tick := start.Add(time.Duration(n) * h.every)
					late := time.Duration((n+i)*(n+i)%7) * time.Second * 9 / 10
					time.Sleep(time.Until(tick.Add(skew*time.Second + late)))
					h.once(t.Context(), tick)
				}
			})
		}
		hosts.Wait()
		require.Len(t, r.done, ticks)
		for tick, n := range r.done {
			require.Equal(t, 1, n, "tick %s", at(tick))
		}
	})
}

// The host that has the lock is cut off in the middle of the job.
func TestAnotherHostTakesOverForTheSameTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := relocktest.New(t)
		r := &record{done: make(map[time.Time]int)}
		lost := redis.Session(relock.WithLease(5 * time.Second))
		h := r.host(lost)
		began := make(chan struct{})
		h.job = func(ctx context.Context, _ time.Time) error {
			close(began)
			redis.Partition(lost)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		ctx, stop := context.WithCancel(t.Context())
		var hosts sync.WaitGroup
		defer hosts.Wait()
		defer stop()
		hosts.Go(func() { h.cron(ctx) })
		other := r.host(redis.Session())
		hosts.Go(func() {
			time.Sleep(other.every + time.Second) // it is second
			other.once(ctx, time.Now().Truncate(other.every))
		})
		tick := time.Now().Truncate(h.every).Add(h.every)
		time.Sleep(h.every * 3 / 2)
		<-began
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Equal(t, map[time.Time]int{tick: 1}, r.done)
	})
}

// someDone waits until the jobs of three ticks are done.
func someDone(t *testing.T, out *redistest.Buffer) {
	t.Helper()
	redistest.Eventually(t, time.Minute, "three ticks", func() bool {
		return strings.Count(out.String(), ": done\n") >= 3
	})
}

func TestHostsInMemoryDoTheJob(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var out redistest.Buffer
	ended := make(chan error, 1)
	go redistest.WithoutFIPS(func() { // the Redis in memory computes SHA-1
		ended <- run(ctx, []string{"-every=500ms", "-work=5ms", "-lease=1m"}, &out)
	})
	someDone(t, &out)
	interrupt()
	require.NoError(t, <-ended)
}

// startHost starts a process with one host and appends its lines to out.
func startHost(t *testing.T, out *redistest.Buffer, args ...string) *redistest.Proc {
	t.Helper()
	p := redistest.Child(t, "cron", args...)
	p.Copy(out)
	return p
}

func TestProcessesOnServerDoTheJob(t *testing.T) {
	server := redistest.Start(t)
	var out redistest.Buffer
	args := []string{"-redis", server.Addr(), "-hosts=1", "-every=500ms", "-work=10ms", "-lease=1m"}
	hosts := []*redistest.Proc{startHost(t, &out, args...), startHost(t, &out, args...), startHost(t, &out, args...)}
	someDone(t, &out)
	for _, p := range hosts {
		require.NoError(t, syscall.Kill(p.PID(), syscall.SIGINT))
		require.NoError(t, p.Wait(), "interrupted")
	}
}

func TestJobOfAKilledHostIsDone(t *testing.T) {
	server := redistest.Start(t)
	args := []string{"-redis", server.Addr(), "-hosts=1", "-every=1s", "-lease=1s"}
	var first, second redistest.Buffer
	killed := startHost(t, &first, append(args, "-work=1h")...)
	redistest.Eventually(t, time.Minute, "the job to start", func() bool {
		return strings.Contains(first.String(), "started")
	})
	startHost(t, &second, append(args, "-work=1ms")...)
	killed.Kill()
	redistest.Eventually(t, time.Minute, "another host to do the job", func() bool {
		return strings.Contains(second.String(), ": done")
	})
}
