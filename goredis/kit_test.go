package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { kit.Main(m) }

type options = redis.UniversalOptions

func command(t testing.TB, s *redistest.Server, args ...string) {
	t.Helper()
	_, err := s.Do(args...)
	require.NoError(t, err)
}

// connect returns a client with these options, which the end of the test closes.
func connect(t testing.TB, o options) rueidis.Client {
	t.Helper()
	client, err := goredis.NewClient(&o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// excludes fails the test unless two sessions with these options exclude each other, one wakes
// the other, and go-redis with the same options finds the lock where they keep it.
func excludes(t testing.TB, o options) {
	t.Helper()
	ctx, a, b := t.Context(), kit.SessionOn(t, connect(t, o)), kit.SessionOn(t, connect(t, o))
	if o.MasterName != "" {
		o.IsClusterMode = false // that client of go-redis leaves goroutines behind (v9.23.0)
	}
	rdb := redis.NewUniversalClient(&o)
	defer rdb.Close()
	for _, name := range []string{"goods:1", "goods:2", "goods:3", "goods:4"} { // in a cluster, of several nodes
		mine, theirs := a.Mutex(name), b.Mutex(name)
		kit.Lock(t, ctx, mine)
		require.EqualValues(t, 1, rdb.Exists(ctx, name).Val(), "go-redis does not see the lock on %s", name)
		got := kit.Async(func() error { return theirs.Lock(ctx) })
		redistest.Eventually(t, kit.Soon, "the other session to wait", func() bool { return peek.Engine(b).Waits(name) })
		require.Empty(t, got, "two have %s", name)
		kit.Unlock(t, ctx, mine)
		require.NoError(t, kit.Receive(t, got, "the other session to get in"))
		kit.Unlock(t, ctx, theirs)
		n, err := rdb.Exists(ctx, name).Result()
		require.NoError(t, err)
		require.Zero(t, n, "%s is locked after Unlock", name)
	}
}

// fails fails the test if a client can be made.
func fails(t testing.TB, o options, what string) {
	t.Helper()
	client, err := goredis.NewClient(&o)
	if !assert.Nil(t, client, what) {
		client.Close()
	}
	assert.ErrorContains(t, err, "goredis: NewClient: ", what)
}
