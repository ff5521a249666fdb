package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func redislockPeers() []*peer {
	const module = "github.com/bsm/redislock"
	// Without a RetryStrategy it does not wait at all; the one of its documentation
	// tries again every 100 ms.
	return []*peer{
		redislockPeer("redislock", "redislock, 1 ms", module, time.Millisecond, false),
		redislockPeer("redislock-default", "redislock, 100 ms", module, 100*time.Millisecond, true),
	}
}

func redislockPeer(id, title, module string, poll time.Duration, defaults bool) *peer {
	return &peer{
		id: id, title: title, module: module, poll: poll, again: defaults, defaults: defaults, keys: oneKey,
		note: "go-redis with its default options; LinearBackoff(" + poll.String() + ")",
		connect: func(addr string, lease time.Duration) (library, error) {
			client, err := connectGoRedis(addr)
			if err != nil {
				return nil, err
			}
			return &redislockLib{client, redislock.New(client), lease, poll}, nil
		},
	}
}

func connectGoRedis(addr string) (*redis.Client, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	if err := client.Ping(context.Background()).Err(); err != nil {
		_ = client.Close() // there is the error of the Ping
		return nil, err
	}
	return client, nil
}

type redislockLib struct {
	redis  *redis.Client
	client *redislock.Client
	lease  time.Duration
	poll   time.Duration
}

func (l *redislockLib) mutex(name string) mutex {
	return &redislockMutex{lib: l, name: name, options: redislock.Options{RetryStrategy: redislock.LinearBackoff(l.poll)}}
}

func (l *redislockLib) close() { _ = l.redis.Close() } // the process ends

type redislockMutex struct {
	lib     *redislockLib
	name    string
	options redislock.Options
	lock    *redislock.Lock
}

// Lock waits for as long as ctx says: Obtain would give up after the lease.
func (m *redislockMutex) Lock(ctx context.Context) (err error) {
	for {
		m.lock, err = m.lib.client.Obtain(ctx, m.name, m.lib.lease, &m.options)
		if err != context.DeadlineExceeded || ctx.Err() != nil {
			return err
		}
	}
}

func (m *redislockMutex) Unlock(ctx context.Context) error { return m.lock.Release(ctx) }

func (m *redislockMutex) Refresh(ctx context.Context) error {
	return m.lock.Refresh(ctx, m.lib.lease, nil)
}
