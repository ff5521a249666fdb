package goredis_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
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
	readme := string(must(os.ReadFile("README.md"))(t))
	source := string(must(os.ReadFile("example_test.go"))(t))
	_, snippet, _ := strings.Cut(readme, "```go\n")
	snippet, _, found := strings.Cut(snippet, "```")
	if !found {
		t.Fatal("README.md has no Go code")
	}
	if n := strings.Count(snippet, "\n"); n > 10 {
		t.Errorf("%d lines to migrate", n)
	}
	if !strings.Contains(source, "\t"+strings.TrimSpace(strings.ReplaceAll(snippet, "\n", "\n\t"))+"\n") {
		t.Errorf("not in the example:\n%s", snippet)
	}
}

// A service without go-redis must not get it from relock.
func TestCoreDoesNotKnowGoRedis(t *testing.T) {
	for _, name := range []string{"../go.mod", "../go.sum"} {
		if strings.Contains(string(must(os.ReadFile(name))(t)), "redis/go-redis") {
			t.Errorf("%s names go-redis", name)
		}
	}
}
