package redistest_test

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestChildSpeaksByLines(t *testing.T) {
	t.Parallel()
	p := redistest.Child(t, "echo", "a b", "c\"d")
	line, err := p.Line(soon)
	require.NoError(t, err)
	require.Equal(t, "args [a b c\"d]", line)
	require.NoError(t, p.Send("one"))
	require.NoError(t, p.Send("two"))
	rest, err := p.Expect("echo tw", soon)
	require.NoError(t, err)
	require.Equal(t, "o", rest)
	require.NoError(t, p.Send("exit"))
	require.NoError(t, p.Wait())
	_, err = p.Line(soon)
	require.ErrorIs(t, err, io.EOF)
}

func TestChildEndsWithItsInput(t *testing.T) {
	t.Parallel()
	p := redistest.Child(t, "sleep") // never reads
	require.NoError(t, p.CloseInput())
	require.NoError(t, p.Wait())
}

func TestFrozenChildIsSilent(t *testing.T) {
	t.Parallel()
	p := redistest.Child(t, "echo")
	_, err := p.Expect("args", soon)
	require.NoError(t, err)
	require.NoError(t, p.Freeze())
	require.NoError(t, p.Send("late"))
	_, err = p.Line(50 * time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, p.Thaw())
	_, err = p.Expect("echo late", soon)
	require.NoError(t, err)
	require.NoError(t, p.Freeze())
	p.Kill()
	require.False(t, p.Running())
}

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
