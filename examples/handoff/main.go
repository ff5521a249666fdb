// Handoff is an HTTP service whose requests only begin a job: the handler acquires the lock of an account, answers, and hands
// its hold off to a worker in another process, which finishes the job and unlocks. From the request to the end of the job
// nobody else works on the account.
//
//	go run ./examples/handoff                                   # handler and worker, on a Redis in memory
//	go run ./examples/handoff -redis localhost:6379 -no-worker  # in one terminal
//	go run ./examples/handoff -redis localhost:6379 -no-server  # in another, any number
//	curl -i -X POST localhost:8080/accounts/7/report
//
// It answers 202 if the job has begun, 409 if the account is being worked on, and 503 if the client should ask again.
// What has to be right is in handoff.go. Ctrl-C ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/demo"
)

func main() {
	demo.Main("handoff", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout) })
}

// run serves and works until ctx ends.
func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("handoff", flag.ExitOnError)
	addr := flags.String("redis", "", "`host:port` or redis:// URL of a Redis server (default: one in memory)")
	listen := flags.String("addr", "127.0.0.1:8080", "`host:port` to listen on")
	noServer := flags.Bool("no-server", false, "only work")
	noWorker := flags.Bool("no-worker", false, "only serve")
	pace := flags.Duration("pace", time.Second, "what a job takes")
	_ = flags.Parse(args)

	redis, err := demo.Open(*addr)
	if err != nil {
		return err
	}
	defer redis.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	n := 0
	part := func(f func(*service) error) error { // each has what a process of its own would have
		client, err := redis.Connect()
		if err != nil {
			return err
		}
		session, err := relock.NewSession(ctx, client, relock.WithPrefix("report:"))
		if err != nil {
			client.Close()
			return err
		}
		n++
		go func() { // run waits for it
			err := f(&service{client: client, session: session, out: stdout, pace: *pace})
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			err = errors.Join(err, session.Close(ctx))
			client.Close()
			ended <- err
		}()
		return nil
	}
	if !*noWorker {
		err = part(func(s *service) error { return s.work(ctx) })
	}
	if !*noServer && err == nil {
		err = part(func(s *service) error { return s.serve(ctx, *listen) })
	}
	for ; n > 0; n-- {
		err = errors.Join(err, <-ended)
		cancel() // one without the other is of no use
	}
	return err
}

// serve answers requests until ctx ends.
func (s *service) serve(ctx context.Context, addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintf(s.out, "listening on http://%s\n", listener.Addr())
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(ctx)
	<-done
	return err
}
