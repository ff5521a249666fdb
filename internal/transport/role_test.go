package transport

import (
	"context"
	"sync"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Refusals are logged, so a server that hides its role is not asked each time; and it may tell it
// later.
func TestServerThatHidesItsRoleIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	c := NewConn(client, 0, 0, &wg)
	must := func(args ...string) {
		t.Helper()
		_, err := server.Do(args...)
		require.NoError(t, err)
	}
	check := func() error { return c.Check(context.Background(), client) }
	must("ACL", "SETUSER", "default", "-role")
	require.NoError(t, check())
	must("ACL", "SETUSER", "default", "+role")
	must("REPLICAOF", "127.0.0.1", "1")
	before := server.CommandStats()["ping"]
	require.NoError(t, check())
	require.Equal(t, before+1, server.CommandStats()["ping"])

	c.roleFrom.Add(-int64(roleAgain)) // some time later
	require.Equal(t, ErrReplica, check())
}
