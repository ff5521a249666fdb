// Cron runs a job at regular times, each time on one host only, though every host has
// the same timetable. If that host dies in the middle, another does the job.
//
//	go run ./examples/cron                                  # three hosts, on a Redis in memory
//	go run ./examples/cron -redis localhost:6379 -hosts 1   # one; run it in several terminals
//
// What has to be right is in cron.go. Ctrl-C ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/demo"
)

func main() {
	demo.Main("cron", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

// run plays some hosts until ctx ends.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("cron", flag.ExitOnError)
	addr := flags.String("redis", "", "`host:port` or redis:// URL of a Redis server (default: one in memory)")
	hosts := flags.Int("hosts", 3, "hosts to play in this process")
	every := flags.Duration("every", time.Second, "from one tick to the next")
	work := flags.Duration("work", 200*time.Millisecond, "what the job takes")
	lease := flags.Duration("lease", 5*time.Second, "how long the lock of a host that has died stays locked")
	_ = flags.Parse(args)
	if *hosts < 1 || *every < 10*time.Millisecond {
		return errors.New("-hosts must be at least 1, and -every at least 10ms")
	}

	client, _, done, err := demo.Client(*addr)
	if err != nil {
		return err
	}
	defer done()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range *hosts {
		// In production there is one session to a process. Two sessions in one
		// process are as far apart as two processes.
		session, err := relock.NewSession(ctx, client, relock.WithPrefix("cron:"), relock.WithLease(*lease))
		if err != nil {
			return err
		}
		h := &host{session: session, every: *every, job: report(*work)}
		h.log = log.New(stdout, fmt.Sprintf("host %d.%d: ", os.Getpid(), i+1), 0)
		running.Go(func() {
			h.cron(ctx)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := session.Close(ctx); err != nil {
				h.log.Print(err)
			}
		})
	}
	running.Wait()
	return nil
}

// report returns a job that takes some time.
func report(work time.Duration) func(context.Context, time.Time) error {
	return func(ctx context.Context, _ time.Time) error {
		select {
		case <-time.After(work):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
