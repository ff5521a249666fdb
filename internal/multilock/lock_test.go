package multilock

import (
	"os"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// newEngine starts an engine on a Redis of its own, which is closed when the test ends.
func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	scripts, err := wire.LoadScripts(os.DirFS("../../lua"))
	require.NoError(t, err)
	_, client := redistest.Mini(t)
	var e *engine.Engine
	e = engine.New(client, engine.Config{
		Scripts: scripts, Lease: time.Minute,
		Dispatch: func(channel, message string) bool { return e.Heard(channel, message) },
	})
	require.NoError(t, e.Start(background))
	t.Cleanup(func() { require.NoError(t, e.Close(background)) })
	return e
}

func lock(e *engine.Engine, k wire.Kind, name string) *engine.Lock {
	l := new(engine.Lock)
	l.Init(e, k, name, engine.LockConfig{})
	return l
}

// Two locks of one name, or both sides of one, are locked one after the other: as a second Lock of the
// same owner.
func TestMembersOfOneNameAreLockedTogether(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	m := lock(e, wire.Plain, "a")
	for what, g := range map[string]*Group{
		"one value":            New(m, m),
		"two values":           New(m, lock(e, wire.Plain, "a")),
		"a writer and readers": New(lock(e, wire.Read, "rw"), lock(e, wire.Write, "rw"), lock(e, wire.Read, "rw")),
		"two fair":             New(lock(e, wire.Fair, "f"), lock(e, wire.Fair, "f"), m),
	} {
		for range 2 {
			ok, err := g.TryLock(background)
			require.NoError(t, err, what)
			require.True(t, ok, what)
			require.NoError(t, g.Unlock(background), what)
		}
		require.NoError(t, g.Lock(background), what)
		require.NoError(t, g.Unlock(background), what)
		require.ErrorIs(t, g.Unlock(background), lockerr.ErrNotHeld, what)
	}
}
