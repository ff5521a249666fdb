package main

import (
	"path/filepath"
	"testing"

	"github.com/relock-go/relock/internal/snippets"
)

// What the guides say of other libraries compiles with the versions of go.mod.
func TestGuidesCompile(t *testing.T) {
	documents, err := filepath.Glob("../docs/*.md")
	noError(t, err)
	snippets.Compile(t, snippets.Code{
		Documents: documents,
		Language:  "golang",
		Imports: []string{
			"context", "errors", "log", "time", "github.com/relock-go/relock", "github.com/redis/rueidis", "github.com/bsm/redislock",
			"github.com/go-redsync/redsync/v4", "github.com/redis/rueidis/rueidislock",
		},
		Params: "ctx context.Context, client rueidis.Client, session *relock.Session, " +
			"rs *redsync.Redsync, rl *redislock.Client, locker rueidislock.Locker, work func(context.Context) error",
	})
}
