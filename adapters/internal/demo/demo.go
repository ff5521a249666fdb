// Package demo is what the examples of the adapters share: each runs in two processes, on a Redis in memory or on
// yours.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

// A Process is one of the two.
type Process struct {
	Number  int    // 1 or 2
	Dir     string // an empty directory at first, which both have
	Addr    string // of Redis
	Client  rueidis.Client
	Session *relock.Session
}

// Main runs an example. With -redis it is one of the processes: it calls run, which must return when ctx ends, as it
// does by Ctrl-C. Without, it starts a Redis in memory and two processes.
func Main(name string, run func(ctx context.Context, p Process) error) {
	var p Process
	flag.StringVar(&p.Addr, "redis", "", "`host:port` of a Redis server; without, two processes run on one in memory")
	flag.IntVar(&p.Number, "number", 1, "which of the processes this is: `1` or 2")
	flag.StringVar(&p.Dir, "dir", "", "a `directory` that the processes share")
	flag.Parse()
	log.SetOutput(os.Stdout)
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	log.SetPrefix(fmt.Sprintf("process %d: ", p.Number))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop() // not before the end: one of two processes is interrupted by the terminal, and by who has started it
	err := p.connect(ctx)
	switch {
	case err != nil:
	case p.Addr == "":
		err = both(ctx, name)
	default:
		err = errors.Join(run(ctx, p), p.close())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// connect makes the client and the session.
func (p *Process) connect(ctx context.Context) (err error) {
	if p.Addr == "" {
		return nil
	}
	p.Client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.Addr}, ForceSingleClient: true, DisableCache: true, // as the Redis in memory needs it
	})
	if err == nil {
		p.Session, err = relock.NewSession(ctx, p.Client, relock.WithPrefix("lock:"), relock.WithLease(5*time.Second))
	}
	return err
}

func (p *Process) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := p.Session.Close(ctx)
	p.Client.Close()
	return err
}

// both runs two processes of this program on a Redis in memory until ctx ends, or one of them does.
func both(ctx context.Context, name string) error {
	server, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer server.Close()
	server.ClockTTL(true) // keys expire
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	for i := range 2 {
		cmd := exec.CommandContext(ctx, self, "-redis", server.Addr(), "-dir", dir, "-number", fmt.Sprint(i+1))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		go func() { // joined below
			err := cmd.Run()
			if errors.Is(err, ctx.Err()) {
				err = nil // it was interrupted, and ended well
			}
			ended <- err
		}()
	}
	err = <-ended
	stop()
	return errors.Join(err, <-ended)
}
