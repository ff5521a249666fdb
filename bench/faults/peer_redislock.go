package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

func redislockPeer() *peer {
	return &peer{
		id: "redislock", module: "github.com/bsm/redislock",
		how: "as in its README: `Obtain` with `LinearBackoff(100ms)` and a deadline, and the " +
			"external watchdog, which refreshes every third of the ttl and cancels the work's " +
			"context when that fails",
		owner: stringOwner(""),
		connect: func(addr string, lease time.Duration) (locker, error) {
			client, err := connectGoRedis(addr)
			if err != nil {
				return nil, err
			}
			return redislockLib{redislock.New(client), lease}, nil
		},
	}
}

type redislockLib struct {
	client *redislock.Client
	lease  time.Duration
}

func (l redislockLib) lock(ctx context.Context, name string) (hold, error) {
	// Without a deadline it would give up after the ttl.
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	lock, err := l.client.Obtain(ctx, name, l.lease, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return nil, err
	}
	work, end := context.WithCancel(context.Background())
	h := redislockHold{lock, work, end}
	go h.watchdog(l.lease)
	return h, nil
}

type redislockHold struct {
	lock   *redislock.Lock
	work   context.Context
	cancel context.CancelFunc
}

func (h redislockHold) watchdog(ttl time.Duration) {
	t := time.NewTicker(ttl / 3)
	defer t.Stop()
	for {
		select {
		case <-h.work.Done():
			return
		case <-t.C:
			if err := h.lock.Refresh(h.work, ttl, nil); err != nil {
				h.cancel()
				return
			}
		}
	}
}

func (h redislockHold) lost() <-chan struct{} { return h.work.Done() }
func (h redislockHold) token() int64          { return 0 }

func (h redislockHold) unlock() error {
	h.cancel()
	return h.lock.Release(context.Background())
}
