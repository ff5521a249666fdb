package memredis_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/memredis"
)

const script = "EVAL return(1) 0"

func TestFailedScriptsDoNotRun(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		allow := s.FailScripts("OOM no memory")
		allowOther := s.FailScripts("LOADING not yet")
		c.send("EVAL redis.call('set','a','b') 0", "INCR n")
		require.Equal(t, "-OOM no memory", c.line())
		require.Equal(t, ":1", c.line(), "only scripts fail")
		require.False(t, s.Mini.Exists("a"))
		allow()
		allow()
		c.send(script)
		require.Equal(t, "-LOADING not yet", c.line())
		allowOther()
		c.send(script)
		require.Equal(t, ":1", c.line())
	})
}

func TestScriptsFailThatAreGivenAForbiddenKey(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		allow := s.FailKey("b", "NOPERM no")
		c.send("EVAL return(1) 2 a b", "EVAL return(1) 1 a b")
		require.Equal(t, "-NOPERM no", c.line())
		require.Equal(t, ":1", c.line(), "b is an argument")
		allow()
		c.send("EVAL return(1) 2 a b")
		require.Equal(t, ":1", c.line())
	})
}

func TestTextOfAScriptIsNeverUnknown(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		c.send("SCRIPT LOAD return(1)")
		c.line()
		sha := c.line()
		evalsha := "EVALSHA " + sha + " 0"
		know := s.FailScripts("NOSCRIPT unknown")
		c.send(evalsha, script)
		require.Equal(t, "-NOSCRIPT unknown", c.line())
		require.Equal(t, ":1", c.line())
		know()
		c.send(evalsha)
		require.Equal(t, ":1", c.line())
		s.FlushScripts()
		c.send(evalsha)
		require.Contains(t, c.line(), "-NOSCRIPT")
	})
}

func TestEvictedKeyIsGone(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		c.send("SET a b PX 30000", "SET b c")
		c.line()
		c.line()
		time.Sleep(time.Second)
		left, ok := s.TTL("a")
		require.True(t, ok)
		require.Equal(t, 29*time.Second, left)
		left, ok = s.TTL("b")
		require.True(t, ok)
		require.Zero(t, left)
		s.Evict("a")
		_, ok = s.TTL("a")
		require.False(t, ok)
	})
}

// What a process has sent still arrives; then the server learns of its end, or never does.
func TestVanishedProcessIsGone(t *testing.T) {
	for silent, subscribers := range map[bool]int{false: 0, true: 1} {
		t.Run(map[bool]string{false: "noticed", true: "silently"}[silent], func(t *testing.T) {
			onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
				c, listener := dial(t, p), dial(t, p)
				listener.send("SUBSCRIBE c")
				for range 6 {
					listener.line()
				}
				p.Delay(time.Second)
				c.send("INCR a")
				p.Vanish(silent)
				_, err := c.Read(make([]byte, 1))
				require.ErrorIs(t, err, net.ErrClosed)
				_, err = c.Write([]byte("x"))
				require.ErrorIs(t, err, net.ErrClosed)
				_, err = p.Dial(background, time.Minute)
				require.ErrorAs(t, err, new(*net.OpError))
				require.False(t, s.Mini.Exists("a"))
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, s.Mini.Exists("a"))
				require.Equal(t, subscribers, s.Mini.PubSubNumSub("c")["c"])
			})
		})
	}
}
