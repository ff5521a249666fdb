// Orders is an HTTP service that takes payments, with a lock for each order: however often
// and at how many instances a payment is asked for, the order is charged once.
//
//	go run ./examples/orders                         # on a Redis in memory
//	go run ./examples/orders -redis localhost:6379   # several, each with its own -addr
//	curl -i -X POST localhost:8080/orders/7/payment
//
// It answers 201 if it has charged the order, 409 if that was charged before, 423 if another
// request for it was not done within the timeout, and 503 if the client should ask again.
// What happens to the locks is in the log: -v shows all of it, and without it losses.
//
// What has to be right is in orders.go. Ctrl-C ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/demo"
)

func main() {
	demo.Main("orders", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("orders", flag.ExitOnError)
	redisAddr := flags.String("redis", "", "`host:port` or redis:// URL of a Redis server (default: one in memory)")
	addr := flags.String("addr", "127.0.0.1:8080", "`host:port` to listen on")
	timeout := flags.Duration("timeout", 2*time.Second, "of a request")
	bank := flags.Duration("bank", 100*time.Millisecond, "what the bank takes to answer")
	verbose := flags.Bool("v", false, "log everything that happens to the locks")
	_ = flags.Parse(args)

	client, _, done, err := demo.Client(*redisAddr)
	if err != nil {
		return err
	}
	defer done()

	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	session, err := relock.NewSession(ctx, client,
		relock.WithPrefix("orders:lock:"), relock.WithObserver(relock.SlogObserver(logger)))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, session.Close(ctx))
	}()

	s := &service{client: client, session: session, timeout: *timeout, bank: *bank}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// First the requests end, then their locks: a session that is closed loses them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*(*timeout))
	defer cancel()
	err = server.Shutdown(ctx)
	<-ended
	return err
}
