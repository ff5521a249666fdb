package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func rueidislockPeer() *peer {
	return &peer{
		id: "rueidislock", module: "github.com/redis/rueidis",
		how: "as in its README: `KeyMajority` 1, `NoLoopTracking`, extended at half of " +
			"`KeyValidity`; the context of `WithContext` tells of loss. `TryNextAfter` is 10 s " +
			"instead of 20 ms, so that a busy machine does not count as a taken lock",
		owner: stringOwner("rueidislock:0:"),
		connect: func(addr string, lease time.Duration) (locker, error) {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
				KeyMajority:    1,
				NoLoopTracking: true,
				KeyValidity:    lease,
				TryNextAfter:   10 * time.Second,
			})
			return rueidislockLib{l}, err
		},
	}
}

type rueidislockLib struct{ locker rueidislock.Locker }

func (l rueidislockLib) lock(ctx context.Context, name string) (hold, error) {
	held, cancel, err := l.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return rueidislockHold{held, cancel}, nil
}

type rueidislockHold struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (h rueidislockHold) lost() <-chan struct{} { return h.ctx.Done() }
func (h rueidislockHold) token() int64          { return 0 }

// unlock is not told whether the key could be deleted.
func (h rueidislockHold) unlock() error {
	h.cancel()
	return nil
}
