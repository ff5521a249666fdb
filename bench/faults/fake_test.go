package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// A fake is a library, sound or with one known fault, that shows what the counters see.
type fake struct {
	open    bool // does not lock
	deaf    bool // never tells of a loss
	slow    bool // tells of a loss a lease too late
	eternal bool // keys have no expiry
	sleeper bool // tries once, and then waits for nothing
	stuck   bool // its tokens do not grow
	bare    bool // has no tokens
}

var known = map[string]fake{
	"sound": {}, "open": {open: true}, "deaf": {deaf: true}, "slow": {slow: true},
	"eternal": {eternal: true}, "sleeper": {sleeper: true}, "stuck": {stuck: true},
	"bare": {bare: true},
}

func init() {
	for id, f := range known {
		fakes = append(fakes, &peer{
			id: "fake-" + id, tokens: !f.bare, open: f.open, owner: stringOwner(""),
			connect: func(addr string, lease time.Duration) (locker, error) {
				client, err := connectGoRedis(addr)
				return fakeLib{f, client, lease}, err
			},
		})
	}
}

type fakeLib struct {
	fake
	client *redis.Client
	lease  time.Duration
}

func (l fakeLib) lock(ctx context.Context, name string) (hold, error) {
	lease := l.lease
	if l.eternal {
		lease = 0
	}
	h := &fakeHold{lib: l, name: name, id: fmt.Sprint(rand.Uint64()), number: 1}
	var sent time.Time
	for ok := false; !ok; {
		sent = time.Now()
		var err error
		if ok, err = l.client.SetNX(ctx, name, h.id, lease).Result(); err != nil {
			return nil, err
		}
		// One whose reply was lost finds its own.
		ok = ok || l.client.Get(ctx, name).Val() == h.id && !l.eternal
		if l.open {
			break
		}
		if !ok && l.sleeper {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
	switch {
	case l.bare:
		h.number = 0
	case !l.stuck:
		h.number = l.client.Incr(ctx, name+":token").Val()
	}
	h.ctx, h.cancel = context.WithCancel(ctx)
	go h.renew(sent)
	return h, nil
}

type fakeHold struct {
	lib    fakeLib
	name   string
	id     string
	number int64
	ctx    context.Context
	cancel context.CancelFunc
}

const (
	extendScript = `if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`
	releaseScript = `if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("DEL", KEYS[1]) end return 0`
)

// renew renews the lease, and tells of its end a tenth of it before.
func (h *fakeHold) renew(sent time.Time) {
	lease := h.lib.lease
	valid := lease * 9 / 10
	if h.lib.slow {
		valid += lease
	}
	end := time.AfterFunc(time.Until(sent.Add(valid)), h.lose)
	defer end.Stop()
	for tick := time.Tick(lease / 5); ; {
		select {
		case <-h.ctx.Done():
			return
		case <-tick:
		}
		if h.lib.eternal || h.lib.open {
			end.Reset(valid)
			continue
		}
		sent := time.Now()
		ok, err := h.lib.client.Eval(h.ctx, extendScript, []string{h.name}, h.id,
			lease.Milliseconds()).Bool()
		switch {
		case ok:
			end.Reset(time.Until(sent.Add(valid)))
		case err == nil && !h.lib.slow:
			h.lose()
		}
	}
}

func (h *fakeHold) lose() {
	if !h.lib.deaf {
		h.cancel()
	}
}

func (h *fakeHold) lost() <-chan struct{} { return h.ctx.Done() }
func (h *fakeHold) token() int64          { return h.number }

func (h *fakeHold) unlock() error {
	h.cancel()
	return h.lib.client.Eval(context.Background(), releaseScript, []string{h.name}, h.id).Err()
}
