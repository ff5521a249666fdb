package redistest_test

import (
	"net"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Only Linux ties a child's life to its parent's.
func TestServersDieWithTheProcessThatStartedThem(t *testing.T) {
	t.Parallel()
	redistest.Start(t) // skips where there is no redis-server
	p := redistest.Child(t, "serve", t.TempDir())
	addr, err := p.Expect("addr ", soon)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	p.Kill()
	redistest.Eventually(t, soon, "the server to be gone", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}
