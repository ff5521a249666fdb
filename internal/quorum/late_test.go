package quorum

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A repair may get its part at the instant in which the hold ends.
func TestPartThatIsGrantedAfterTheEndIsGivenBack(t *testing.T) {
	t.Parallel()
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	mini, client := redistest.Mini(t)
	e := engine.New(client, engine.Config{
		Scripts: scripts, Lease: time.Minute,
		Dispatch: func(_, message string) bool { return message == wire.ForRedisson },
	})
	background := context.Background()
	require.NoError(t, e.Start(background))
	t.Cleanup(func() { require.NoError(t, e.Close(background)) })

	h := newHold(New([]Session{{e, NewQueue(e)}}, "a", engine.LockConfig{}))
	h.end()
	ctx, cancel := h.bounded(background)
	defer cancel()
	require.NoError(t, h.take(ctx, 0, h.r.nodes[0].Mutex))
	require.Zero(t, h.count())
	redistest.Eventually(t, time.Minute, "the release", func() bool { return !mini.Exists("a") })
}
