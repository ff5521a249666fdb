// Package demo finds the Redis that an example runs on.
package demo

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

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

// Close ends a Redis in memory.
func (r *Redis) Close() { r.close() }
