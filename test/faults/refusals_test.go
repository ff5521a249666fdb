package faults_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// While a script of somebody else keeps the server busy it answers BUSY to everything. Without room for connections
// it turns away whoever must connect again.
func TestServerThatRefusesEverythingIsWaitedFor(t *testing.T) {
	for what, c := range map[string]struct {
		begin func(t testing.TB, s *redistest.Server) (end func())
		says  string // as the reason of a Lock whose context has ended
	}{
		"busy":    {func(t testing.TB, s *redistest.Server) func() { return redistest.KeepBusy(t, s) }, "BUSY"},
		"crowded": {crowdOut, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--lua-time-limit", "20")
			session := kit.NewSession(t, s)
			wanted, ended := session.Mutex("wanted"), session.Mutex("ended")
			kit.Lock(t, kit.Background, ended)
			end := c.begin(t, s)
			redistest.Eventually(t, kit.Soon, "Lock to say why", func() bool {
				ctx, cancel := kit.ContextFor(500 * time.Millisecond)
				defer cancel()
				err := wanted.Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return strings.Contains(err.Error(), c.says)
			})
			locked := kit.Async(func() error { return wanted.Lock(kit.Background) })
			unlocked := kit.Async(func() error { return ended.Unlock(kit.Background) })
			time.Sleep(500 * time.Millisecond) // they try again and again
			require.Empty(t, locked)
			require.Empty(t, unlocked)
			end()
			require.NoError(t, kit.Receive(t, locked, "Lock"))
			require.NoError(t, kit.Receive(t, unlocked, "Unlock"))
			kit.Unlock(t, kit.Background, wanted)
			freed(t, s, "ended")
		})
	}
}

// crowdOut closes all connections of a server and lets nobody connect again.
func crowdOut(t testing.TB, s *redistest.Server) (end func()) {
	client := kit.NewClient(t, s) // whose own connection goes on
	do := func(args ...string) {
		require.NoError(t, client.Do(kit.Background, client.B().Arbitrary(args...).Build()).Error())
	}
	do("CONFIG", "SET", "maxclients", "1")
	do("CLIENT", "KILL", "TYPE", "PUBSUB")
	do("CLIENT", "KILL", "SKIPME", "YES")
	return func() { do("CONFIG", "SET", "maxclients", "1000") }
}

// A server that is out of memory takes nothing new in, and says so at once; what is held is still renewed and released.
func TestHoldsSurviveWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	s := redistest.Start(t)
	session := kit.NewSession(t, s, relock.WithLease(lease))
	held, wanted := session.Mutex("held"), session.Mutex("wanted")
	goesOn(t, wanted)
	kit.Lock(t, kit.Background, held)
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	require.ErrorContains(t, wanted.Lock(kit.Background), "OOM")
	ok, err := wanted.TryLock(kit.Background)
	require.False(t, ok)
	require.ErrorContains(t, err, "OOM")
	time.Sleep(2 * lease) // several renewals
	require.NoError(t, held.Err())
	kit.Unlock(t, kit.Background, held)
	require.Empty(t, append(holders(t, s, "held"), holders(t, s, "wanted")...), "nor does a failed acquire leave anything")
	do(t, s, "CONFIG", "SET", "maxmemory", "0")
	goesOn(t, held, wanted)
}
