package memredis_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/memredis"
)

var background = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onServer runs a test in a bubble, on a server and a process.
func onServer(t *testing.T, f func(t *testing.T, s *memredis.Server, p *memredis.Process)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := memredis.New()
		require.NoError(t, err)
		t.Cleanup(s.Close)
		f(t, s, s.Process())
	})
}

// A conn is a connection that speaks RESP3.
type conn struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, p *memredis.Process) *conn {
	t.Helper()
	c, err := p.Dial(background, time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	d := &conn{c, t, bufio.NewReader(c)}
	d.send("HELLO 3")
	for line := ""; line != "*0"; { // its last field is an empty list of modules
		line = d.line()
	}
	return d
}

// send sends commands at once.
func (c *conn) send(commands ...string) {
	c.t.Helper()
	var all strings.Builder
	for _, command := range commands {
		args := strings.Fields(command)
		all.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
		for _, arg := range args {
			all.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n" + arg + "\r\n")
		}
	}
	n, err := c.Write([]byte(all.String()))
	require.NoError(c.t, err)
	require.Equal(c.t, all.Len(), n)
}

// line reads a line.
func (c *conn) line() string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	return strings.TrimRight(line, "\r\n")
}

func (c *conn) subscribe() {
	c.t.Helper()
	c.send("SUBSCRIBE c")
	for range 6 {
		c.line()
	}
}

// ends reads to the end of the connection.
func (c *conn) ends() (rest string) {
	c.t.Helper()
	b, err := io.ReadAll(c.r)
	require.NoError(c.t, err)
	return string(b)
}
