// Package demo is what the examples share: their end by Ctrl-C, and the Redis that they run on.
package demo

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// Main runs a program until it ends, or its ctx does by Ctrl-C or TERM, and exits.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the first
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Redis is a server for an example.
type Redis struct {
	Name     string // for people
	Option   rueidis.ClientOption
	InMemory bool
	close    func()
}

// Open returns the Redis at an address, host:port or a URL, or a new one in memory if
// there is none. The caller must Close it after its clients.
func Open(addr string) (*Redis, error) {
	r := &Redis{InMemory: addr == "", close: func() {}}
	if r.InMemory {
		mini, err := miniredis.Run()
		if err != nil {
			return nil, fmt.Errorf("starting a Redis in memory: %w", err)
		}
		mini.ClockTTL(true) // keys expire
		r.Name, r.close = "a Redis in memory", mini.Close
		r.Option.InitAddress = []string{mini.Addr()}
		r.Option.ForceSingleClient = true // it answers CLUSTER, but is none
	} else {
		r.Option.InitAddress = []string{addr}
		if strings.Contains(addr, "://") {
			option, err := rueidis.ParseURL(addr)
			if err != nil {
				return nil, fmt.Errorf("-redis: %w", err)
			}
			r.Option = option
		}
		r.Name = "Redis at " + r.Option.InitAddress[0]
	}
	r.Option.DisableCache = true // not needed for locks, and unknown to miniredis
	r.Option.Dialer = net.Dialer{Timeout: 3 * time.Second}
	return r, nil
}

// Connect returns a client. The caller must close it.
func (r *Redis) Connect() (rueidis.Client, error) {
	client, err := rueidis.NewClient(r.Option)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, fmt.Errorf("cannot use %s: %w", r.Name, err)
	}
	return client, nil
}

// Client is Open and Connect for who needs one client. The caller must call close.
func Client(addr string) (client rueidis.Client, inMemory bool, close func(), err error) {
	r, err := Open(addr)
	if err != nil {
		return nil, false, nil, err
	}
	if client, err = r.Connect(); err != nil {
		r.Close()
		return nil, false, nil, err
	}
	return client, r.InMemory, func() { client.Close(); r.Close() }, nil
}

// Close ends a Redis in memory.
func (r *Redis) Close() { r.close() }
