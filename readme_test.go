package relock_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/snippets"
)

func TestMain(m *testing.M) { kit.Main(m) }

// Every Go program in README.md and docs compiles as it stands. A snippet that is not a program
// is one of a function body. Code that uses other libraries is marked golang, and compiled by bench.
func TestDocumentedProgramsCompile(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	documents = slices.DeleteFunc(documents, func(path string) bool { // of functions; compared with those of examples
		return path == filepath.Join("docs", "recipes.md") || path == filepath.Join("docs", "setnx.md")
	})
	snippets.Compile(t, snippets.Code{
		Documents: append(documents, "README.md"),
		Language:  "go",
		Imports: []string{
			"context", "errors", "fmt", "log", "sync", "time", "github.com/redis/rueidis", "github.com/relock-go/relock",
		},
		Params: "ctx context.Context, client rueidis.Client, session *relock.Session, work func(context.Context) error",
	})
}
