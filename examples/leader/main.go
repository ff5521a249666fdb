// Leader elects one of several workers. The leader works as long as it holds the lock, stops when it has lost it, and
// another takes over. After a term it steps down for one that waits. An observer follows who leads, by Session.Watch.
//
//	go run ./examples/leader                                    # three workers, on a Redis in memory
//	go run ./examples/leader -redis localhost:6379 -workers 1   # one; run it in several terminals
//
// On the Redis in memory somebody forces the lock open every few seconds. On yours, do it
// yourself: relock unlock leader:lock. Or kill the leader, or stop Redis with SIGSTOP.
//
// What has to be right is in worker.go, and in observer.go for a process that must find the leader. Ctrl-C ends it.
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
	demo.Main("leader", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

// run plays some workers until ctx ends.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("leader", flag.ExitOnError)
	addr := flags.String("redis", "", "`host:port` or redis:// URL of a Redis server (default: one in memory)")
	workers := flags.Int("workers", 3, "workers in this process")
	pace := flags.Duration("pace", time.Second, "from one step of the work to the next")
	term := flags.Duration("term", time.Minute, "after which a leader steps down when another worker waits")
	lease := flags.Duration("lease", 5*time.Second, "how long the lock of a leader that has died stays locked")
	_ = flags.Parse(args)
	if *workers < 1 || *pace < time.Millisecond {
		return errors.New("-workers must be at least 1, and -pace at least 1ms")
	}

	client, inMemory, done, err := demo.Client(*addr)
	if err != nil {
		return err
	}
	defer done()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range *workers {
		// In production there is one session to a process. Two sessions in one
		// process are as far apart as two processes.
		// The label is where others reach the worker.
		address := fmt.Sprintf("worker-%d-%d.example:80", os.Getpid(), i+1)
		session, err := relock.NewSession(ctx, client, relock.WithPrefix("leader:"), relock.WithLease(*lease),
			relock.WithLabel(address))
		if err != nil {
			return err
		}
		w := &worker{client: client, session: session, pace: *pace, term: *term}
		w.log = log.New(stdout, fmt.Sprintf("worker %d.%d: ", os.Getpid(), i+1), 0)
		running.Go(func() {
			w.work(ctx)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := session.Close(ctx); err != nil {
				w.log.Print(err)
			}
		})
		if i > 0 {
			continue
		}
		running.Go(func() {
			observe(ctx, session, log.New(stdout, fmt.Sprintf("observer %d: ", os.Getpid()), 0))
		})
		if inMemory {
			running.Go(func() { depose(ctx, session, 3*(*pace)) })
		}
	}
	running.Wait()
	return nil
}

// depose forces the lock open from time to time.
func depose(ctx context.Context, session *relock.Session, every time.Duration) {
	for {
		select {
		case <-time.After(every):
			_, _ = session.ForceUnlock(ctx, lock) // the next time comes
		case <-ctx.Done():
			return
		}
	}
}
