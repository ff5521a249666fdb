package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// redisson locks as one thread of Redisson does: its hash, its time to live, its
// channel, and its message.
type redisson struct {
	client  rueidis.Client
	thread  string
	message chan struct{}
}

func newRedisson(t *testing.T, at addressed) *redisson {
	t.Helper()
	r := &redisson{newClient(t, at), "8a1d7c0e-2b0f-4a6e-9d3c-5e6f7a8b9c0d:47", make(chan struct{}, 1)}
	conn, put := r.client.Dedicate()
	t.Cleanup(put)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if m.Message == "0" {
			select {
			case r.message <- struct{}{}:
			default:
			}
		}
	}})
	require.NoError(t, conn.Do(background, conn.B().Subscribe().Channel("redisson_lock__channel:{lock}").Build()).Error())
	return r
}

func (r *redisson) eval(script string, args ...string) error {
	n, err := r.client.Do(background, r.client.B().Eval().Script(script).Numkeys(1).Key("lock").Arg(args...).Build()).AsInt64()
	if err == nil && n == 0 {
		err = errTaken
	}
	return err
}

var errTaken = errors.New("taken")

func (r *redisson) Lock(ctx context.Context) error {
	for {
		err := r.eval(`if redis.call('exists', KEYS[1]) == 1 then return 0 end
			redis.call('hincrby', KEYS[1], ARGV[1], 1)
			return redis.call('pexpire', KEYS[1], 30000)`, r.thread)
		if err != errTaken {
			return err
		}
		select {
		case <-r.message:
		case <-time.After(10 * time.Second): // Redisson would wait for the time to live
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *redisson) Unlock(context.Context) error {
	return r.eval(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
		redis.call('del', KEYS[1])
		redis.call('publish', 'redisson_lock__channel:{lock}', '0')
		return 1`, r.thread)
}

// locking is what the kinds have in common.
type locking interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// Locks of all kinds of one name exclude each other, and each gets in as soon as the
// other unlocks: many rounds together take less than one timer.
func TestFairMutexMutexAndRedissonShareALock(t *testing.T) {
	kinds := map[string]func(t *testing.T, at addressed) locking{
		"FairMutex": func(t *testing.T, at addressed) locking { return newSession(t, at).FairMutex("lock") },
		"Mutex":     func(t *testing.T, at addressed) locking { return newSession(t, at).Mutex("lock") },
		"Redisson":  func(t *testing.T, at addressed) locking { return newRedisson(t, at) },
	}
	for _, pair := range [][2]string{
		{"FairMutex", "Mutex"}, {"Mutex", "FairMutex"}, {"FairMutex", "Redisson"}, {"Redisson", "FairMutex"},
	} {
		t.Run(pair[0]+" then "+pair[1], func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				first, then := kinds[pair[0]](t, at), kinds[pair[1]](t, at)
				client := newClient(t, at)
				var slow time.Duration
				for range 20 {
					require.NoError(t, first.Lock(background))
					got := async(func() error { return then.Lock(background) })
					time.Sleep(5 * time.Millisecond)
					select {
					case <-got:
						t.Fatal("they do not exclude each other")
					default:
					}
					start := time.Now()
					require.NoError(t, first.Unlock(background))
					require.NoError(t, receive(t, got, "the other to get in"))
					slow += time.Since(start)
					require.NoError(t, then.Unlock(background))
				}
				require.Less(t, slow, quickly)
				nothingOf(t, client, "lock")
			})
		})
	}
}

// All of them at once.
func TestAllKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	fairs, plain := newSession(t, server), newSession(t, server)
	both := newSession(t, server)
	locks := []locking{
		fairs.FairMutex("lock"), fairs.FairMutex("lock"), both.FairMutex("lock"), both.FairMutex("lock"),
		plain.Mutex("lock"), plain.Mutex("lock"), both.Mutex("lock"), newRedisson(t, server),
	}
	const rounds = 15
	require.NoError(t, together(len(locks), func(i int) error {
		for range rounds {
			if err := locks[i].Lock(background); err != nil {
				return err
			}
			err := bump(background, client, "count")
			if err := errors.Join(err, locks[i].Unlock(background)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, len(locks)*rounds, counted(t, client, "count"))
	nothingOf(t, client, "lock")
}

// A FairMutex waits for a read-write lock of its name, and does not break in.
func TestFairMutexRespectsAReadWriteLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	s := newSession(t, server, relock.WithWatchdog(time.Second))
	m := s.FairMutex("lock")
	for _, fields := range [][]string{{"mode", "read", "a:1", "1"}, {"mode", "write", "a:1:write", "1"}} {
		require.NoError(t, client.Do(background, client.B().Arbitrary("HSET", "lock").Args(fields...).Build()).Error())
		require.False(t, tryLock(t, background, m))
		got := async(func() error { return m.Lock(background) })
		waiting(t, s, "lock", 1)
		time.Sleep(time.Second)
		waiting(t, s, "lock", 1)
		require.NoError(t, client.Do(background, client.B().Del().Key("lock").Build()).Error())
		require.NoError(t, receive(t, got, "the waiter to get in"))
		unlock(t, background, m)
	}
}
