package session

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Leaks()...) }

const enough = time.Minute // for what comes quickly on an idle machine

var background = context.Background()

// bare returns a session that has not started.
func bare(t testing.TB, client rueidis.Client, length time.Duration) *Session {
	t.Helper()
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	return New(client, acquire.Config{Scripts: scripts, Lease: length})
}

// start starts a session, which is closed when the test ends.
func start(t testing.TB, client rueidis.Client, length time.Duration) *Session {
	t.Helper()
	e := bare(t, client, length)
	ctx, cancel := context.WithTimeout(background, enough)
	defer cancel()
	require.NoError(t, e.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(background, enough)
		defer cancel()
		_ = e.Close(ctx) // fails where the test has broken Redis
		require.NoError(t, ctx.Err(), "the session does not close")
	})
	return e
}
