package redistest_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestServersDieWithTheProcessThatStartedThem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a child's life to its parent's")
	}
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

func TestMain(m *testing.M) {
	redistest.RunChild(map[string]func([]string){"serve": serve})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// serve starts a server in the given directory and prints its address.
func serve(args []string) {
	s, err := redistest.Launch(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("addr", s.Addr())
	select {}
}
