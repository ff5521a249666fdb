package main

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func rueidislockPeers() []*peer {
	const module = "github.com/redis/rueidis"
	return []*peer{{
		id: "rueidislock", title: "rueidislock", module: module,
		note: "KeyMajority 1, NoLoopTracking, TryNextAfter 1 s: its fastest way on one server; " +
			"ExtendInterval a third of the lease",
		renews: true, keys: rueidislockKeys(1),
		connect: func(addr string, lease time.Duration) (library, error) {
			return connectRueidislock(rueidislock.LockerOption{
				KeyMajority: 1, NoLoopTracking: true, TryNextAfter: time.Second,
			}, addr, lease)
		},
	}, {
		id: "rueidislock-default", title: "rueidislock, defaults", module: module,
		note:   "three keys for each lock, of which it needs two; ExtendInterval a third of the lease",
		renews: true, defaults: true, keys: rueidislockKeys(3),
		connect: func(addr string, lease time.Duration) (library, error) {
			return connectRueidislock(rueidislock.LockerOption{}, addr, lease)
		},
	}}
}

// rueidislockKeys returns the first n keys of a lock.
func rueidislockKeys(n int) func(name string) []string {
	return func(name string) (keys []string) {
		for i := range n {
			keys = append(keys, "rueidislock:"+strconv.Itoa(i)+":"+name)
		}
		return keys
	}
}

type rueidislockLib struct{ locker rueidislock.Locker }

func connectRueidislock(o rueidislock.LockerOption, addr string, lease time.Duration) (library, error) {
	o.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}}
	o.KeyValidity, o.ExtendInterval = lease, lease/3
	locker, err := rueidislock.NewLocker(o)
	if err != nil {
		return nil, err
	}
	return &rueidislockLib{locker}, nil
}

func (l *rueidislockLib) mutex(name string) mutex { return &rueidisMutex{locker: l.locker, name: name} }

func (l *rueidislockLib) close() { l.locker.Close() }

type rueidisMutex struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func (m *rueidisMutex) Lock(ctx context.Context) (err error) {
	_, m.cancel, err = m.locker.WithContext(ctx, m.name)
	return err
}

// Unlock returns when the keys are deleted, or could not be: it is not told which.
func (m *rueidisMutex) Unlock(context.Context) error {
	m.cancel()
	return nil
}
