package engine

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const enough = time.Minute // for what comes quickly on an idle machine

var background = context.Background()

// bare returns an engine that has not started.
func bare(t testing.TB, client rueidis.Client, length time.Duration) *Engine {
	t.Helper()
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	return New(client, Config{Scripts: scripts, Lease: length})
}

// newEngine starts an engine, which is closed when the test ends.
func newEngine(t testing.TB, client rueidis.Client, length time.Duration) *Engine {
	t.Helper()
	e := bare(t, client, length)
	ctx, cancel := context.WithTimeout(background, enough)
	defer cancel()
	require.NoError(t, e.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(background, enough)
		defer cancel()
		_ = e.Close(ctx) // fails where the test has broken Redis
		require.NoError(t, ctx.Err(), "the engine does not close")
	})
	return e
}
