package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// A peer is a library, used as its documentation says.
type peer struct {
	id     string // of the -only flag, and in the table
	module string
	how    string // it is used
	tokens bool   // its holds have fencing tokens
	open   bool   // a fake for which nobody waits

	// owner returns what Redis says of who has a lock: a text that differs from hold to hold,
	// and "" if nobody has it.
	owner   func(ctx context.Context, c *redis.Client, name string) (string, error)
	connect func(addr string, lease time.Duration) (locker, error)
}

// A locker is a library in one process.
type locker interface {
	// lock waits until it has the lock.
	lock(ctx context.Context, name string) (hold, error)
}

// A hold is a lock that was acquired.
type hold interface {
	lost() <-chan struct{} // closed when the library, or its documented loop, tells of a loss
	token() int64          // 0: none
	unlock() error
}

func allPeers() []*peer {
	return append([]*peer{relockPeer(), rueidislockPeer(), redsyncPeer(), redislockPeer()}, fakes...)
}

// fakes are libraries with known faults. Only tests have some.
var fakes []*peer

func peerByID(id string) *peer {
	for _, p := range allPeers() {
		if p.id == id {
			return p
		}
	}
	return nil
}

// stringOwner is the owner of a lock that is a string at the key prefix + name.
func stringOwner(prefix string) func(context.Context, *redis.Client, string) (string, error) {
	return func(ctx context.Context, c *redis.Client, name string) (string, error) {
		value, err := c.Get(ctx, prefix+name).Result()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return value, err
	}
}

// connectGoRedis connects go-redis with its default options.
func connectGoRedis(addr string) (*redis.Client, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	if err := client.Ping(context.Background()).Err(); err != nil {
		_ = client.Close() // there is the error of the Ping
		return nil, err
	}
	return client, nil
}
