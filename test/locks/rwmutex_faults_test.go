package locks_test

import (
	"context"
	"fmt"
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
		"the intents are lost": {30 * time.Second, func(t *testing.T, s *redistest.Server, _ relock.Locker) {
			must(t, s, "DEL", "relock_intent:{lock}")
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

// While Redis cannot be reached, in every way there is, calls end with their contexts,
// and an unlock of either side by the end of its lease. Afterwards things go on.
func TestRWMutexCallsEndWhileRedisIsOutOfReach(t *testing.T) {
	const lease = 1500 * time.Millisecond
	kit.EachOutage(t, func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, begin, heal func()) {
		s, other := kit.NewSession(t, proxy, relock.WithLease(lease)), kit.NewSession(t, server, relock.WithLease(lease))
		held := []relock.Locker{s.RWMutex("read").RLocker(), s.RWMutex("written")}
		for _, l := range held {
			kit.Lock(t, kit.Background, l)
		}
		begin()
		var ends []<-chan error
		for _, l := range held {
			ends = append(ends, kit.Async(func() error { return l.Unlock(kit.Background) }))
		}
		for _, l := range []relock.Locker{s.RWMutex("third"), s.RWMutex("third").RLocker()} {
			ctx, cancel := context.WithTimeoutCause(kit.Background, 50*time.Millisecond, kit.ErrStop)
			wantStopped(t, kit.Receive(t, kit.Async(func() error { return l.Lock(ctx) }), "a call to end with its context"), context.DeadlineExceeded)
			ok, err := l.TryLock(ctx)
			cancel()
			require.False(t, ok)
			require.Error(t, err)
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
		}
		for i, l := range held {
			require.NoError(t, kit.Receive(t, ends[i], "Unlock while Redis is out of reach"))
			require.Error(t, l.Err())
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
		}
		heal()
		for _, name := range []string{"read", "written", "third"} {
			for _, s := range []*relock.Session{other, s} {
				rw := s.RWMutex(name)
				kit.Lock(t, kit.Background, rw)
				kit.Unlock(t, kit.Background, rw)
			}
		}
	})
}

// A server that forgets its scripts all the time is noticed by nobody.
func TestRWMutexForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	s, other := kit.NewSession(t, server, relock.WithLease(lease)), kit.NewSession(t, server, relock.WithLease(lease), relock.WithTenure(0))
	read, wrote := s.RWMutex("read").RLocker(), s.RWMutex("written")
	kit.Lock(t, kit.Background, read)
	kit.Lock(t, kit.Background, wrote)
	stop := make(chan struct{})
	flushes := kit.Async(func() (n int) {
		for ; !kit.IsClosed(stop); n++ {
			if _, err := server.Do("SCRIPT", "FLUSH"); err != nil {
				t.Error(err)
				return n
			}
		}
		return n
	})
	var locks []*relock.RWMutex
	for i := range 6 {
		locks = append(locks, []*relock.Session{s, other}[i%2].RWMutex("lock"))
	}
	before, _ := wrote.Deadline()
	rounds, renewed := 0, false
	var err error
	for ; err == nil && !renewed; rounds++ {
		err = crowd{client}.mingle(locks, 4)
		deadline, held := wrote.Deadline()
		renewed = !held || deadline.Sub(before) > lease/10
	}
	close(stop)
	require.Greater(t, kit.Receive(t, flushes, "the flusher"), 100)
	require.NoError(t, err, fmt.Sprint("round ", rounds))
	require.Equal(t, rounds*written(len(locks), 4), kit.Counted(t, client, "value"))
	require.NoError(t, read.Err())
	require.NoError(t, wrote.Err())
	kit.Unlock(t, kit.Background, read)
	kit.Unlock(t, kit.Background, wrote)
	mustBeQuiet(t, client, "lock", s, other)
}
