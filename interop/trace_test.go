package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/test/spec"
	"github.com/stretchr/testify/require"
)

// monitor returns a function that returns what MONITOR has shown meanwhile.
func monitor(t *testing.T, server *redistest.Server) (lines func() []string) {
	conn, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	var all []string
	read := bufio.NewScanner(conn)
	read.Buffer(nil, 1<<20)
	require.True(t, read.Scan()) // +OK
	done := kit.Async(func() error {
		for read.Scan() {
			all = append(all, read.Text())
		}
		return nil
	})
	return sync.OnceValue(func() []string {
		time.Sleep(100 * time.Millisecond) // for the last lines
		_ = conn.Close()
		<-done
		return all
	})
}

// traced has the scripts of this process say what they do.
var traced sync.Once

// Sessions of relock and a process of Redisson share a lock, and MONITOR shows each step of both:
// the specification accepts them.
func TestTheSpecificationAcceptsWhatBothSidesDo(t *testing.T) {
	eachRedisson(t, func(t *testing.T, version string) {
		server := redistest.Start(t)
		var sessions []*relock.Session
		for range 2 {
			sessions = append(sessions, kit.NewSession(t, server, relock.WithLease(3*time.Second)))
		}
		traced.Do(func() { peek.ChangeScripts(sessions[0], spec.Traced) })
		java := single(server, 3*time.Second).start(t, version)
		warmUp([]*peer{java}, "lock")
		lines := monitor(t, server)
		hammer := java.begin("trace", "hammer", "lock", "it", "counter", 3000, 1)
		ctx, cancel := context.WithTimeout(kit.Background, 3*time.Second)
		defer cancel()
		require.NoError(t, kit.Together(4, func(i int) error {
			m := sessions[i%2].Mutex("it")
			for ctx.Err() == nil {
				if m.Lock(ctx) != nil {
					continue
				}
				time.Sleep(time.Millisecond)
				if err := m.Unlock(kit.Background); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		}))
		hammer.must()
		all := spec.Monitored(lines(), "it")
		c := spec.Checker{Extra: 25 * spec.Millisecond}
		require.NoError(t, c.Check(all))
		require.Zero(t, c.Aside)
		foreign := 0
		for _, e := range all {
			if e.Name == spec.Foreign {
				foreign++
			}
		}
		fmt.Printf("Redisson %s: %d steps are accepted, of which Redisson's are %d\n",
			version, c.Steps, foreign)
		require.Greater(t, foreign, 10)
		require.Greater(t, c.Steps-foreign, 10)
	})
}
