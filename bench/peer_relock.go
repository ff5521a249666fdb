package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

func relockPeers() []*peer {
	return []*peer{{
		id: ours, title: "relock", module: "github.com/relock-go/relock",
		note:   "Mutex of one session, its watchdog with the lease; default tenure",
		renews: true, own: true, keys: oneKey, connect: connectRelock,
	}, {
		id: "relock-fair", title: "relock FairMutex", module: "github.com/relock-go/relock",
		note:   "the same with FairMutex, which is in order of arrival",
		renews: true, own: true, again: true, keys: oneKey,
		connect: func(addr string, lease time.Duration) (library, error) {
			l, err := connectRelock(addr, lease)
			if err != nil {
				return nil, err
			}
			return fairLib{l.(*relockLib)}, nil
		},
	}}
}

type fairLib struct{ *relockLib }

func (l fairLib) mutex(name string) mutex { return l.session.FairMutex(name) }

type relockLib struct {
	client  rueidis.Client
	session *relock.Session
}

func connectRelock(addr string, lease time.Duration) (library, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	session, err := relock.NewSession(context.Background(), client, relock.WithLease(lease))
	if err != nil {
		client.Close()
		return nil, err
	}
	return &relockLib{client, session}, nil
}

func (l *relockLib) mutex(name string) mutex { return l.session.Mutex(name) }

func (l *relockLib) kept(name string) mutex {
	return l.session.Mutex(name, relock.WithKeep(time.Minute))
}

func (l *relockLib) readWrite(name string) (read, write mutex) {
	rw := l.session.RWMutex(name)
	return rw.RLocker(), rw
}

func (l *relockLib) close() {
	_ = l.session.Close(context.Background()) // the process ends
	l.client.Close()
}
