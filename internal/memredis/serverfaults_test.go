package memredis_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/memredis"
)

func TestScriptsAreRefused(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		allow, allowOther := s.FailScripts("OOM no memory"), s.FailScripts("LOADING not yet")
		c.send("EVAL redis.call('set','a','b') 0", "INCR n")
		require.Equal(t, "-OOM no memory", c.line())
		require.Equal(t, ":1", c.line(), "only scripts fail")
		require.False(t, s.Mini.Exists("a"))
		allow()
		allow()
		c.send("EVAL return(1) 0")
		require.Equal(t, "-LOADING not yet", c.line())
		allowOther()

		allow = s.FailKey("b", "NOPERM no")
		c.send("EVAL return(1) 2 a b", "EVAL return(1) 1 a b")
		require.Equal(t, "-NOPERM no", c.line())
		require.Equal(t, ":1", c.line(), "b is an argument")
		allow()
		c.send("EVAL return(1) 2 a b")
		require.Equal(t, ":1", c.line())
	})
}

func TestScriptsAreForgottenButTheirTextWorks(t *testing.T) {
	onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
		c := dial(t, p)
		for _, forget := range []func(){
			s.FlushScripts,
			func() {
				s.Restart(true)
				c = dial(t, p)
			},
			func() { s.FailScripts("NOSCRIPT unknown") },
		} {
			c.send("SCRIPT LOAD return(1)")
			c.line()
			sha := c.line()
			forget()
			c.send("EVALSHA "+sha+" 0", "EVAL return(1) 0")
			require.Contains(t, c.line(), "-NOSCRIPT")
			require.Equal(t, ":1", c.line())
		}
	})
}

// What a process has sent still arrives; then the server learns of its end, or never does.
func TestVanishedProcessIsGone(t *testing.T) {
	for silent, subscribers := range map[bool]int{false: 0, true: 1} {
		t.Run(map[bool]string{false: "noticed", true: "silently"}[silent], func(t *testing.T) {
			onServer(t, func(t *testing.T, s *memredis.Server, p *memredis.Process) {
				c, listener := dial(t, p), dial(t, p)
				listener.subscribe()
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
