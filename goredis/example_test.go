package goredis_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
)

func Example() {
	server, err := miniredis.Run() // in the place of yours
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	opts := &redis.UniversalOptions{Addrs: []string{server.Addr()}}
	fmt.Println(migrated(context.Background(), opts, func() { fmt.Println("locked") }))
	// Output:
	// locked
	// <nil>
}

// migrated has the lines of README.md.
func migrated(ctx context.Context, opts *redis.UniversalOptions, work func()) error {
	client, err := goredis.NewClient(opts) // the options of your redis.NewUniversalClient
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := relock.NewSession(ctx, client)
	if err != nil {
		return err
	}
	defer session.Close(context.Background())

	return relock.Do(ctx, session.Mutex("goods:1000:1"), func(ctx context.Context) error {
		work()
		return nil
	})
}

// The lines to migrate are at most ten, and those that the example runs.
func TestREADMEIsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, snippet, _ := strings.Cut(string(readme), "```go\n")
	snippet, _, _ = strings.Cut(snippet, "\n```")
	require.LessOrEqual(t, strings.Count(snippet, "\n"), 10)
	require.Contains(t, string(source), "\t"+strings.ReplaceAll(snippet, "\n", "\n\t")+"\n")
}

// A service without go-redis must not get it from relock.
func TestCoreDoesNotKnowGoRedis(t *testing.T) {
	for _, name := range []string{"../go.mod", "../go.sum"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(text), "redis/go-redis", name)
	}
}

func ExampleFromOptions() {
	server, err := miniredis.Run() // in the place of yours
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	opts, err := redis.ParseURL("redis://" + server.Addr() + "/3?read_timeout=2s")
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := goredis.FromOptions(opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client.Do(context.Background(), client.B().Ping().Build()).ToString())
	// Output: PONG <nil>
}
