package memredis_test

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/memredis"
)

func TestDelayIsOfEachWayAndInOrder(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		const delay = 70 * time.Millisecond
		c := dial(t, p)
		start := time.Now()
		p.Delay(delay)
		c.send("INCR a")
		p.Delay(0)
		c.send("INCR a") // does not overtake
		require.Equal(t, ":1", c.line())
		require.Equal(t, ":2", c.line())
		require.Equal(t, delay, time.Since(start), "the delay had ended when the replies were sent")

		p.Delay(delay)
		start = time.Now()
		late := dial(t, p)
		require.Equal(t, 4*delay, time.Since(start), "a round trip for the connection, one for HELLO")
		late.send("INCR a")
		require.Equal(t, ":3", late.line())
		require.Equal(t, 6*delay, time.Since(start))

		c.subscribe()
		start = time.Now()
		s.Mini.Publish("c", "m")
		require.Equal(t, ">3", c.line())
		require.Equal(t, delay, time.Since(start))
	})
}

func TestCutHoldsBackOneDirection(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		for _, d := range []memredis.Direction{memredis.Up, memredis.Down} {
			s.Mini.FlushAll()
			heal, again := p.Cut(d), p.Cut()
			again()
			again()
			start := time.Now()
			time.AfterFunc(time.Hour, heal)
			c.send("INCR a")
			synctest.Wait()
			require.Equal(t, d == memredis.Down, s.Mini.Exists("a"), "executed")
			require.Equal(t, ":1", c.line())
			require.Equal(t, time.Hour, time.Since(start))
		}
	})
}

func TestNoConnectionIsMadeDuringACut(t *testing.T) {
	onServer(t, func(t *testing.T, _ *memredis.Server, p *memredis.Process) {
		heal := p.Cut(memredis.Down)
		start := time.Now()
		_, err := p.Dial(background, time.Second)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err = p.Dial(ctx, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(start))
		time.AfterFunc(time.Second, heal)
		dial(t, p)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestBreakIsKnownAtOnceToBothEnds(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		p.Delay(time.Hour)
		p.Cut()
		c.send("INCR a")
		start := time.Now()
		p.Break()
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = c.Write([]byte("+OK\r\n"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		synctest.Wait()
		require.Zero(t, s.Mini.CurrentConnectionCount())
		require.Zero(t, time.Since(start))
		require.False(t, s.Mini.Exists("a"))
	})
}

// A close is heard behind what was sent before.
func TestCloseTravelsLikeAMessage(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		heal := p.Cut()
		c.send("INCR a")
		require.NoError(t, c.Close())
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		time.Sleep(time.Hour)
		require.Equal(t, 1, s.Mini.CurrentConnectionCount())
		heal()
		synctest.Wait()
		require.True(t, s.Mini.Exists("a"))
		require.Zero(t, s.Mini.CurrentConnectionCount())
	})
}

func TestReadEndsAtItsDeadline(t *testing.T) {
	onServer(t, func(t *testing.T, _ *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		start := time.Now()
		time.AfterFunc(time.Second, func() { _ = c.SetReadDeadline(start.Add(time.Minute)) })
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, c.SetDeadline(time.Time{}))
		c.send("INCR a")
		require.Equal(t, ":1", c.line())
	})
}

func TestExactlyNCommandsLoseTheirReplies(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c, other := dial(t, p), dial(t, p)
		c.send("INCR a")
		require.Equal(t, ":1", c.line())
		p.DropReplies(2)
		c.send("PING", "INCR a", "INCR a", "INCR a", "INCR a")
		require.Equal(t, "+PONG\r\n", c.ends(), "what was sent before")
		got, err := s.Mini.Get("a")
		require.NoError(t, err)
		require.Equal(t, "3", got, "no other was executed on the connection")
		other.send("INCR a")
		require.Equal(t, ":4", other.line())

		// Who waits for the first reply before it sends the next command learns of the loss.
		p.DropReplies(2)
		for range 2 {
			c := dial(t, p)
			c.send("INCR a")
			require.Empty(t, c.ends())
		}
		other.send("INCR a")
		require.Equal(t, ":7", other.line())
	})
}

func TestUnknownScriptsAndPushesAreNoLostReplies(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		listener, c := dial(t, p), dial(t, p)
		p.DropReplies(1)
		listener.subscribe()
		s.Mini.Publish("c", "m")
		require.Equal(t, ">3", listener.line())
		c.send("EVALSHA " + strings.Repeat("0", 40) + " 0")
		require.Contains(t, c.line(), "-NOSCRIPT")
		c.send("INCR a")
		require.Empty(t, c.ends())
		require.True(t, s.Mini.Exists("a"))
	})
}
