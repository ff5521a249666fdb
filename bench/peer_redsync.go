package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func redsyncPeers() []*peer {
	const module = "github.com/go-redsync/redsync/v4"
	const note = "one pool of go-redis with its default options; as many tries as it takes, "
	return []*peer{
		redsyncPeer(&peer{
			id: "redsync", title: "redsync, 1 ms", module: module, poll: time.Millisecond,
			note: note + "WithRetryDelay(1ms)",
		}, redsync.WithRetryDelay(time.Millisecond)),
		redsyncPeer(&peer{
			id: "redsync-default", title: "redsync, 50-250 ms", module: module, poll: 250 * time.Millisecond, again: true, defaults: true,
			note: note + "its default delay of 50 to 250 ms",
		}),
	}
}

func redsyncPeer(p *peer, options ...redsync.Option) *peer {
	p.keys = oneKey
	p.connect = func(addr string, lease time.Duration) (library, error) {
		client, err := connectGoRedis(addr)
		if err != nil {
			return nil, err
		}
		all := append([]redsync.Option{redsync.WithExpiry(lease), redsync.WithTries(unlimited)}, options...)
		return &redsyncLib{client, redsync.New(goredis.NewPool(client)), all}, nil
	}
	return p
}

type redsyncLib struct {
	redis   *redis.Client
	rs      *redsync.Redsync
	options []redsync.Option
}

func (l *redsyncLib) mutex(name string) mutex { return redsyncMutex{l.rs.NewMutex(name, l.options...)} }

func (l *redsyncLib) close() { _ = l.redis.Close() } // the process ends

type redsyncMutex struct{ m *redsync.Mutex }

var errNotOurs = errors.New("redsync: false without an error")

func (m redsyncMutex) Lock(ctx context.Context) error { return m.m.LockContext(ctx) }

func (m redsyncMutex) Unlock(ctx context.Context) error { return ok(m.m.UnlockContext(ctx)) }

func (m redsyncMutex) Refresh(ctx context.Context) error { return ok(m.m.ExtendContext(ctx)) }

func ok(ok bool, err error) error {
	if err == nil && !ok {
		err = errNotOurs
	}
	return err
}
