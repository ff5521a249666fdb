package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// Keys that Redisson keeps beside a lock for itself are none of relock's business.
func TestPrivateKeysOfRedissonAreLeftAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	client, err := connect("single", server.Addr())
	ok(t, err)
	t.Cleanup(client.Close)
	s, err := relock.NewSession(ctx, client, relock.WithLease(time.Second))
	ok(t, err)
	t.Cleanup(func() { _ = s.Close(ctx) })

	waiter := "d1b1a4c6-0f62-4a51-9e51-6f3a1b0c9d11:47"
	for _, command := range [][]string{
		{"SET", "redisson_unlock_latch:{x}:0123456789abcdef0123456789abcdef", "1"},
		{"SET", "redisson_lock_token:{x}", "7"},
		{"RPUSH", "redisson_lock_queue:{x}", waiter},
		{"ZADD", "redisson_lock_timeout:{x}", "99999999999999", waiter},
	} {
		if _, err := server.Do(command...); err != nil {
			t.Fatal(err)
		}
	}
	before := dump(t, server)
	for range 3 {
		for _, l := range []relock.Locker{s.Mutex("x"), s.FairMutex("x"), s.RWMutex("x"), s.RWMutex("x").RLocker(),
			relock.NewGroup(s.Mutex("x"), s.Mutex("y")), s.Mutex("x", relock.WithFixedLease(time.Second))} {
			ok(t, relock.Do(ctx, l, func(ctx context.Context) error {
				_, err := s.Inspect(ctx, "x")
				return err
			}))
			ok(t, l.Lock(ctx))
			if opened, err := s.ForceUnlock(ctx, "x"); !opened || err != nil {
				t.Fatal(opened, err)
			}
			_ = l.Unlock(ctx) // the other member of a group
		}
	}
	after := dump(t, server)
	for key, value := range before {
		if after[key] != value {
			t.Errorf("%s has changed", key)
		}
	}
}

// dump returns Redisson's private keys, byte by byte.
func dump(t *testing.T, server *redistest.Server) map[string]any {
	keys, err := server.Do("KEYS", "redisson_*")
	ok(t, err)
	values := make(map[string]any)
	for _, key := range keys.([]any) {
		if values[key.(string)], err = server.Do("DUMP", key.(string)); err != nil {
			t.Fatal(err)
		}
	}
	if len(values) != 4 {
		t.Errorf("Redisson's keys are %v", keys)
	}
	return values
}
