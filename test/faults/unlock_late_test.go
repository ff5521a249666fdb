package faults_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A release that Unlock did not wait for arrives when the process has locked again: it names the
// hold that it is for, and ends no other.
func TestLateReleaseEndsNoOtherHold(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	for name, of := range map[string]func(s *relock.Session) relock.Locker{
		"Mutex":     func(s *relock.Session) relock.Locker { return s.Mutex("lock") },
		"FairMutex": func(s *relock.Session) relock.Locker { return s.FairMutex("lock") },
		"writer":    func(s *relock.Session) relock.Locker { return s.RWMutex("lock") },
		"reader":    func(s *relock.Session) relock.Locker { return s.RWMutex("lock").RLocker() },
		"Group":     func(s *relock.Session) relock.Locker { return relock.NewGroup(s.Mutex("lock"), s.Mutex("other")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			var direct atomic.Bool // new connections avoid the proxy
			client := kit.NewClient(t, server, func(o *rueidis.ClientOption) {
				o.ConnWriteTimeout = time.Second // after that it gives up a silent connection
				o.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
					if direct.Load() {
						return d.DialContext(ctx, "tcp", server.Addr())
					}
					return d.DialContext(ctx, "tcp", proxy.Addr())
				}
			})
			s := kit.SessionOn(t, client, relock.WithLease(lease))
			l := of(s)
			// Without a deadline, so that the connection that is cut below is the shared one.
			require.NoError(t, l.Lock(kit.Background))
			up, _ := proxy.Bytes()
			before := evals(server)
			direct.Store(true)
			proxy.Stall(true) // requests go into it, and not out of it
			unlocked := kit.Async(func() error { return l.Unlock(kit.Background) })
			require.NoError(t, kit.Receive(t, unlocked, "Unlock to end without Redis"))
			redistest.Eventually(t, kit.Soon, "the lease to end", func() bool {
				n, err := server.Do("EXISTS", "lock")
				return err == nil && n == int64(0)
			})
			kit.Lock(t, kit.Background, l) // on another connection, once the client gives up the first
			holder := holderIDs(t, server)
			require.NotEmpty(t, holder)
			during := evals(server)
			proxy.Stall(false)
			redistest.Eventually(t, kit.Soon, "the late release to arrive", func() bool {
				now, _ := proxy.Bytes()
				return now > up && evals(server) > during
			})
			require.Greater(t, during, before)
			for range 20 { // also what comes after it, such as a renewal, finds the hold
				require.NoError(t, l.Err())
				// A late request of the call that has locked may have a hold beside it, until that is released.
				require.Subset(t, holderIDs(t, server), holder)
				time.Sleep(lease / 20)
			}
			kit.Unlock(t, kit.Background, l)
		})
	}
}

// evals returns how many scripts a server has run.
func evals(s *redistest.Server) (n int64) {
	for command, calls := range s.CommandStats() {
		if strings.HasPrefix(command, "eval") {
			n += calls
		}
	}
	return n
}

// holderIDs returns the fields of the lock in Redis.
func holderIDs(t testing.TB, s *redistest.Server) any {
	t.Helper()
	fields, err := s.Do("HKEYS", "lock")
	require.NoError(t, err)
	return fields
}
