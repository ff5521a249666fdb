// Example serves the metrics of locks that are used, fought for and lost, to try the dashboard
// and the alerts of the directory grafana:
//
//	go run ./example                          # on a Redis in memory, which fails now and then
//	go run ./example -redis localhost:6379
//	curl localhost:9464/metrics
//
// What a service needs is in observe; work.go only keeps the locks busy. Ctrl-C ends it.
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
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relockotel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// observe returns an observer, and the handler that serves what it has seen.
func observe() (relock.Observer, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	observer, err := relockotel.NewObserver(relockotel.WithMeterProvider(provider), relockotel.WithName(class))
	return observer, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}

// class returns the class of a lock, which the alerts go by: of order:4711 it is order.
func class(lock string) string {
	class, _, _ := strings.Cut(lock, ":")
	return class
}

// run uses locks, and serves their metrics, until ctx ends.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("example", flag.ExitOnError)
	listen := flags.String("listen", "localhost:9464", "`host:port` to serve /metrics on")
	addr := flags.String("redis", "", "`host:port` or redis:// URL of a Redis server (default: one in memory)")
	workers := flags.Int("workers", 4, "goroutines for each kind of lock and each of two sessions")
	pace := flags.Duration("pace", 50*time.Millisecond, "how long a lock is held, about")
	_ = flags.Parse(args)
	if *workers < 1 || *pace < time.Millisecond {
		return errors.New("-workers must be at least 1, and -pace at least 1ms")
	}

	observer, metrics, err := observe()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	running.Go(func() { stop(server.Serve(listener)) })
	defer running.Wait()
	defer server.Close()

	fmt.Fprintf(stdout, "http://%s/metrics\n", listener.Addr())
	if err := work(ctx, *addr, observer, *workers, *pace); err != nil && ctx.Err() == nil {
		return err
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
