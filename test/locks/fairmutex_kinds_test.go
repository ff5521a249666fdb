package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/kit"
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

func newRedisson(t *testing.T, at kit.Addressed) *redisson {
	t.Helper()
	r := &redisson{kit.NewClient(t, at), "8a1d7c0e-2b0f-4a6e-9d3c-5e6f7a8b9c0d:47", make(chan struct{}, 1)}
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
	require.NoError(t, conn.Do(kit.Background, conn.B().Subscribe().Channel("redisson_lock__channel:{lock}").Build()).Error())
	return r
}

func (r *redisson) eval(script string, args ...string) error {
	n, err := r.client.Do(kit.Background, r.client.B().Eval().Script(script).Numkeys(1).Key("lock").Arg(args...).Build()).AsInt64()
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

// All of them at once.
func TestAllKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	fairs, plain := kit.NewSession(t, server), kit.NewSession(t, server)
	both := kit.NewSession(t, server)
	locks := []locking{
		fairs.FairMutex("lock"), fairs.FairMutex("lock"), both.FairMutex("lock"), both.FairMutex("lock"),
		plain.Mutex("lock"), plain.Mutex("lock"), both.Mutex("lock"), newRedisson(t, server),
	}
	const rounds = 15
	require.NoError(t, kit.Together(len(locks), func(i int) error {
		for range rounds {
			if err := locks[i].Lock(kit.Background); err != nil {
				return err
			}
			err := kit.Bump(kit.Background, client, "count")
			if err := errors.Join(err, locks[i].Unlock(kit.Background)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, len(locks)*rounds, kit.Counted(t, client, "count"))
	mustBeQuiet(t, client, "lock")
}
