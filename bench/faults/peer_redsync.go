package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

func redsyncPeer() *peer {
	return &peer{
		id: "redsync", module: "github.com/go-redsync/redsync/v4",
		how: "one pool of go-redis, `WithExpiry`, `WithTries` without an end at its default " +
			"delay of 50 to 250 ms; `ExtendContext` every third of the expiry, and loss is when " +
			"that says that the lock is not ours, or at `Until`",
		owner: stringOwner(""),
		connect: func(addr string, lease time.Duration) (locker, error) {
			client, err := connectGoRedis(addr)
			if err != nil {
				return nil, err
			}
			return redsyncLib{redsync.New(goredis.NewPool(client)), lease}, nil
		},
	}
}

type redsyncLib struct {
	rs    *redsync.Redsync
	lease time.Duration
}

func (l redsyncLib) lock(ctx context.Context, name string) (hold, error) {
	m := l.rs.NewMutex(name, redsync.WithExpiry(l.lease), redsync.WithTries(1<<30))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(context.Background())
	h := redsyncHold{m, work, cancel}
	until := time.AfterFunc(time.Until(m.Until()), cancel)
	go h.extend(l.lease/3, until)
	return h, nil
}

type redsyncHold struct {
	m      *redsync.Mutex
	work   context.Context
	cancel context.CancelFunc
}

// extend moves until, which ends the work, with every extension. Trouble with Redis does not end
// the work before.
func (h redsyncHold) extend(every time.Duration, until *time.Timer) {
	defer until.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-h.work.Done():
			return
		case <-tick.C:
		}
		ok, err := h.m.ExtendContext(h.work)
		var taken *redsync.ErrTaken
		switch {
		case ok:
			until.Reset(time.Until(h.m.Until()))
		case errors.As(err, &taken):
			h.cancel()
		}
	}
}

func (h redsyncHold) lost() <-chan struct{} { return h.work.Done() }
func (h redsyncHold) token() int64          { return 0 }

func (h redsyncHold) unlock() error {
	h.cancel()
	ok, err := h.m.UnlockContext(context.Background())
	if err == nil && !ok {
		err = errors.New("redsync: not unlocked")
	}
	return err
}
