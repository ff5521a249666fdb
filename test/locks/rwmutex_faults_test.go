package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Whatever happens while readers and writers wait for a writer, or writers for a reader,
// in several sessions, everybody gets in, in keeping with each other.
func TestRWMutexWaitersGetInAfterAFault(t *testing.T) {
	const waiters = 12
	must := func(t *testing.T, s *redistest.Server, args ...string) {
		t.Helper()
		_, err := s.Do(args...)
		require.NoError(t, err)
	}
	faults := map[string]struct {
		lease time.Duration
		do    func(t *testing.T, s *redistest.Server, held relock.Locker)
	}{
		"scripts are forgotten": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "SCRIPT", "FLUSH")
		}},
		"subscriptions are cut": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "CLIENT", "KILL", "TYPE", "pubsub")
		}},
		"all connections are cut": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "CLIENT", "KILL", "TYPE", "pubsub")
			must(t, s, "CLIENT", "KILL", "TYPE", "normal")
		}},
		"the queue is lost": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "DEL", "relock_rwqueue:{lock}")
		}},
		"the lock is lost": {time.Second, func(t *testing.T, s *redistest.Server, held relock.Locker) {
			must(t, s, "DEL", "lock")
		}},
		"Redis pauses its clients": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "CLIENT", "PAUSE", "300")
		}},
		"Redis is frozen for less than a lease": {3 * time.Second, func(t *testing.T, s *redistest.Server, held relock.Locker) {
			require.NoError(t, s.Freeze())
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, s.Thaw())
			require.NoError(t, held.Err())
		}},
		"Redis is frozen for longer than a lease": {1500 * time.Millisecond, func(t *testing.T, s *redistest.Server, held relock.Locker) {
			require.NoError(t, s.Freeze())
			kit.Receive(t, held.Done(), "the holder to be told")
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, s.Thaw())
		}},
		"Redis restarts with its data": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			require.NoError(t, s.Restart())
		}},
		"Redis loses its data": {time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "FLUSHALL")
		}},
	}
	for what, fault := range faults {
		t.Run(what, func(t *testing.T) {
			eachSide(t, func(t *testing.T, holder, _ side) {
				server := redistest.Start(t, kit.EveryWrite...)
				client := kit.NewClient(t, server)
				var sessions []*relock.Session
				for range 3 {
					sessions = append(sessions, kit.NewSession(t, server, relock.WithLease(fault.lease)))
				}
				held := holder.of(sessions[0].RWMutex("lock"))
				kit.Lock(t, kit.Background, held)
				done := kit.Async(func() error {
					return kit.Together(waiters, func(i int) error {
						return crowd{client}.visit(kit.Background, sessions[i%3].RWMutex("lock"), holder == reading || i%2 == 0)
					})
				})
				wants(t, server, writing)
				fault.do(t, server, held)
				redistest.Eventually(t, kit.Soon, "the crowd's connection", func() bool {
					return client.Do(kit.Background, client.B().Ping().Build()).Error() == nil
				})
				_ = held.Unlock(kit.Background) // may have been lost
				require.NoError(t, kit.Receive(t, done, "everybody to have been in"))
				mustBeQuiet(t, client, "lock", sessions...)
				for _, s := range sessions {
					rw := s.RWMutex("lock")
					kit.Lock(t, kit.Background, rw)
					kit.Unlock(t, kit.Background, rw)
				}
			})
		})
	}
}
