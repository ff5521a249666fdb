package engine

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

const enough = time.Minute // for what comes quickly on an idle machine

var background = context.Background()

// newEngine starts an engine, which is closed when the test ends.
func newEngine(t testing.TB, client rueidis.Client, length time.Duration) *Engine {
	t.Helper()
	s := New(client, Config{
		Scripts: scripts,
		Lease:   length, Tenure: 10 * time.Millisecond,
		Dispatch: func(_, message string) bool { return message == wire.ForRedisson },
	})
	ctx, cancel := context.WithTimeout(background, enough)
	defer cancel()
	require.NoError(t, s.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(background, enough)
		defer cancel()
		_ = s.Close(ctx) // fails where the test has broken Redis
		require.NoError(t, ctx.Err(), "the engine does not close")
	})
	return s
}

// scripts are the scripts of the tree.
var scripts = func() *wire.Scripts {
	s, err := wire.LoadScripts(os.DirFS("../../lua"))
	if err != nil {
		panic(err)
	}
	return s
}()
