package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

type options = redis.UniversalOptions

const patience = time.Minute

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

// session returns a session on a client of its own.
func session(t testing.TB, o options) *relock.Session {
	t.Helper()
	return sessionOn(t, connect(t, o))
}

func sessionOn(t testing.TB, client rueidis.Client) *relock.Session {
	t.Helper()
	s, err := relock.NewSession(t.Context(), client)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	return s
}

// native returns go-redis' own client.
func native(t testing.TB, o options) redis.UniversalClient {
	t.Helper()
	if o.MasterName != "" {
		o.IsClusterMode = false // that client leaves goroutines behind (v9.23.0)
	}
	rdb := redis.NewUniversalClient(&o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// excludes fails the test unless two sessions with these options exclude each other, one wakes
// the other, and go-redis with the same options finds the lock where they keep it.
func excludes(t testing.TB, o options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, b, rdb := session(t, o), session(t, o), native(t, o)
	for _, name := range []string{"goods:1", "goods:2", "goods:3", "goods:4"} { // in a cluster, of several nodes
		mine, theirs := a.FairMutex(name), b.FairMutex(name) // Inspect counts its waiters
		require.NoError(t, mine.Lock(ctx))
		require.EqualValues(t, 1, rdb.Exists(ctx, name).Val(), "go-redis does not see the lock on %s", name)
		got := make(chan error, 1)
		go func() { got <- theirs.Lock(ctx) }()
		redistest.Eventually(t, patience, "the other session to wait", func() bool {
			state, err := a.Inspect(ctx, name)
			require.NoError(t, err)
			return state.Waiters == 1
		})
		require.NoError(t, mine.Unlock(ctx))
		require.NoError(t, <-got)
		require.NoError(t, theirs.Unlock(ctx))
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
