package session

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A request that Redis executes after the Unlock of its hold, since the network delayed it, and a later one got the
// lock under the same id, leaves nothing.
func TestRequestThatIsExecutedAfterTheUnlock(t *testing.T) {
	t.Parallel()
	mini, client := redistest.Mini(t)
	var l acquire.Lock
	l.Init(start(t, client, time.Hour).Node, wire.Plain, "a", acquire.LockConfig{})
	h, err := l.Take(background, nil, nil, true, false)
	require.NoError(t, err)
	held := lease.Of(h.(*local.Hold).Lease)
	held.Indeterminate = true // as after a request without a reply
	require.NoError(t, l.Release(background, h, false))
	reply, err := l.Node().Proto.Acquire(transport.Background(), &held.Ref, wire.Ask{LeaseMS: wire.Millis(time.Hour)})
	require.NoError(t, err)
	require.True(t, reply.Granted)
	redistest.Eventually(t, enough, "its release", func() bool { return !mini.Exists("a") })
}
