package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

func relockPeer() *peer {
	return &peer{
		id: "relock", module: "github.com/relock-go/relock", tokens: true,
		how: "`Mutex.Acquire` of one session with `WithLease`; `Done` tells of loss",
		owner: func(ctx context.Context, c *redis.Client, name string) (string, error) {
			fields, err := c.HKeys(ctx, name).Result()
			return strings.Join(fields, " "), err
		},
		connect: func(addr string, lease time.Duration) (locker, error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{addr}, DisableCache: true,
			})
			if err != nil {
				return nil, err
			}
			session, err := relock.NewSession(context.Background(), client, relock.WithLease(lease))
			return relockLib{session}, err
		},
	}
}

type relockLib struct{ session *relock.Session }

func (l relockLib) lock(ctx context.Context, name string) (hold, error) {
	h, err := l.session.Mutex(name).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return relockHold{h}, nil
}

type relockHold struct{ h *relock.Hold }

func (h relockHold) lost() <-chan struct{} { return h.h.Done() }
func (h relockHold) token() int64          { return h.h.Token() }
func (h relockHold) unlock() error         { return h.h.Unlock(context.Background()) }
