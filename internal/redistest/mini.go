package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// Mini starts an in-memory Redis and connects a client to it. Both are closed
// when the test ends.
//
// It stands in for Redis only so far: keys never expire unless the test calls
// FastForward, which does not move what TIME answers (SetTime does, and moves no
// key); it refuses scripts on a connection that has subscribed; WAIT answers 0
// at once; and it has no sharded pub/sub. Use [Start] for what depends on these.
// It computes SHA-1 even in FIPS 140-only mode, as a server would.
func Mini(t testing.TB) (*miniredis.Miniredis, rueidis.Client) {
	t.Helper()
	var m *miniredis.Miniredis
	WithoutFIPS(func() { m = miniredis.RunT(t) })
	return m, newClient(t, rueidis.ClientOption{
		InitAddress:       []string{m.Addr()},
		ForceSingleClient: true,
	}, nil)
}
