package goredis_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

func from(t *testing.T, o *redis.Options) rueidis.Client {
	t.Helper()
	client, err := goredis.FromOptions(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// A lock is where go-redis with the same options looks for it, however the options were made.
func TestFromOptionsLeadsWhereGoRedisGoes(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "relock") // a socket's name must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket, "--requirepass", "secret")
	parsed, err := redis.ParseURL("redis://:secret@" + server.Addr() + "/3?read_timeout=2s&pool_size=5")
	require.NoError(t, err)
	live := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret", DB: 4})
	t.Cleanup(func() { live.Close() })
	for name, o := range map[string]*redis.Options{
		"plain":          {Addr: server.Addr(), Password: "secret", DB: 1},
		"network":        {Network: "tcp4", Addr: server.Addr(), Password: "secret", DB: 2},
		"URL":            parsed,
		"of a client":    live.Options(),
		"socket":         {Addr: socket, Password: "secret", DB: 5},
		"network socket": {Network: "unix", Addr: socket, Password: "secret", DB: 6},
		"provider": {Addr: server.Addr(), DB: 7, CredentialsProvider: func() (string, string) {
			return "default", "secret"
		}},
	} {
		rdb := redis.NewClient(o)
		t.Cleanup(func() { rdb.Close() })
		s := kit.SessionOn(t, from(t, o))
		require.NoError(t, relock.Do(t.Context(), s.Mutex("goods:1"), func(ctx context.Context) error {
			n, err := rdb.Exists(ctx, "goods:1").Result()
			assert.EqualValues(t, 1, n, "%s: go-redis does not see the lock: %v", name, err)
			return nil
		}), name)
	}
	_, err = goredis.FromOptions(&redis.Options{Addr: server.Addr(), Password: "wrong"})
	assert.ErrorContains(t, err, "goredis: FromOptions: ")
}

// counting is a hook of go-redis, as redisotel adds one.
type counting struct{ n atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.n.Add(1)
		return next(ctx, network, addr)
	}
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// wrapped is a rueidis.Client that sees what goes through it, as rueidishook makes one.
type wrapped struct {
	rueidis.Client
	n atomic.Int64
}

func (w *wrapped) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	w.n.Add(1)
	return w.Client.Do(ctx, cmd)
}

func (w *wrapped) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	w.n.Add(int64(len(cmds)))
	return w.Client.DoMulti(ctx, cmds...)
}

func (w *wrapped) Nodes() map[string]rueidis.Client {
	nodes := w.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = &wrapped{Client: node}
	}
	return nodes
}

// Hooks of go-redis see nothing of relock. A client around that of relock sees its commands.
func TestHooksOfGoRedisSeeNothingOfLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	hook := new(counting)
	rdb.AddHook(hook)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	before := hook.n.Load()
	require.Positive(t, before)

	client := &wrapped{Client: from(t, rdb.Options())}
	s := kit.SessionOn(t, client)
	started := client.n.Load()
	require.NoError(t, relock.Do(t.Context(), s.Mutex("goods:1"), func(context.Context) error { return nil }))
	redistest.Eventually(t, kit.Soon, "a lock and its release", func() bool { return client.n.Load() >= started+2 })
	assert.Equal(t, before, hook.n.Load(), "a hook of go-redis was called")
}
