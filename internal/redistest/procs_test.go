package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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
	redistest.RunChild(map[string]func([]string){
		"echo":  echo,
		"serve": serve,
	})
	goleak.VerifyTestMain(m, redistest.Leaks()...)
}

// echo prints its arguments, then every line it reads; "exit" ends it.
func echo(args []string) {
	fmt.Fprintln(os.Stderr, "this line belongs in the test log")
	fmt.Println("args", args)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "exit" {
		fmt.Println("echo", lines.Text())
	}
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
