package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const patience = time.Minute

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func command(t testing.TB, s *redistest.Server, args ...string) {
	t.Helper()
	must(s.Do(args...))(t)
}

// connect returns a client with these options, which the end of the test closes.
func connect(t testing.TB, o redis.UniversalOptions) rueidis.Client {
	t.Helper()
	client := must(goredis.NewClient(&o))(t)
	t.Cleanup(client.Close)
	return client
}

// session returns a session on a client of its own.
func session(t testing.TB, o redis.UniversalOptions) *relock.Session {
	t.Helper()
	return sessionOn(t, connect(t, o))
}

func sessionOn(t testing.TB, client rueidis.Client) *relock.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := must(relock.NewSession(ctx, client))(t)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// native returns go-redis' own client.
func native(t testing.TB, o redis.UniversalOptions) redis.UniversalClient {
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
func excludes(t testing.TB, o redis.UniversalOptions) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, b, rdb := session(t, o), session(t, o), native(t, o)
	for _, name := range []string{"goods:1", "goods:2", "goods:3", "goods:4"} { // in a cluster, of several nodes
		mine, theirs := a.FairMutex(name), b.FairMutex(name) // Inspect counts its waiters
		ok(t, mine.Lock(ctx))
		if n := must(rdb.Exists(ctx, name).Result())(t); n != 1 {
			t.Errorf("go-redis does not see the lock on %s", name)
		}
		got := make(chan error, 1)
		go func() { got <- theirs.Lock(ctx) }()
		redistest.Eventually(t, patience, "the other session to wait", func() bool {
			return must(a.Inspect(ctx, name))(t).Waiters == 1
		})
		if err := mine.Unlock(ctx); err != nil {
			t.Error(err)
		}
		ok(t, <-got)
		if err := theirs.Unlock(ctx); err != nil {
			t.Error(err)
		}
		if n := must(rdb.Exists(ctx, name).Result())(t); n != 0 {
			t.Errorf("%s is locked after Unlock", name)
		}
	}
}

// ok stops the test if there is an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
