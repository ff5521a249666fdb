package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// warmUpFair has the server know the scripts of FairMutexes.
func warmUpFair(t testing.TB, s *relock.Session) {
	t.Helper()
	a, b := s.FairMutex("warm-up"), s.FairMutex("warm-up")
	kit.Lock(t, kit.Background, a)
	got := kit.Async(func() error { return b.Lock(kit.Background) })
	waiting(t, s, "warm-up", 1)
	kit.Unlock(t, kit.Background, a)
	require.NoError(t, kit.Receive(t, got, "the second to get in"))
	kit.Unlock(t, kit.Background, b)
}

// hears waits until a session can be told of a grant.
func hears(t testing.TB, server *redistest.Server, s *relock.Session) {
	t.Helper()
	channel := "relock_session:" + s.ID()
	redistest.Eventually(t, kit.Soon, "the subscription", func() bool {
		reply, err := server.Do("PUBSUB", "NUMSUB", channel)
		require.NoError(t, err)
		return reply.([]any)[1].(int64) > 0
	})
}

func TestFairMutexLostReplyToAFirstTry(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, other := kit.NewSession(t, proxy), kit.NewSession(t, server).FairMutex("lock")
	warmUpFair(t, s)
	m := s.FairMutex("lock")
	for range 5 {
		landed := kit.DropReplyOf(proxy, kit.AcquireSHA)
		kit.Lock(t, kit.Background, m)
		kit.Receive(t, landed, "the reply to be lost")
		kit.HeldOnce(t, server, "lock")
		token := m.FencingToken()
		kit.Unlock(t, kit.Background, m)
		kit.Lock(t, kit.Background, other)
		require.Greater(t, other.FencingToken(), token)
		time.Sleep(20 * time.Millisecond) // what the session does about the lost reply goes on
		require.Equal(t, 1, len(kit.HoldersOf(t, s, "lock")))
		require.NoError(t, other.Err())
		kit.Unlock(t, kit.Background, other)
	}
	nothingOf(t, kit.NewClient(t, server), "lock")
}

// The call is in the queue, or even has the lock, and does not know it.
func TestFairMutexLostReplyToAnEnqueue(t *testing.T) {
	for what, free := range map[string]bool{"queued": false, "granted": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server, proxy := kit.Proxied(t)
			s, other := kit.NewSession(t, proxy), kit.NewSession(t, server).FairMutex("lock")
			warmUpFair(t, s)
			m, keeper := s.FairMutex("lock"), s.FairMutex("lock")
			for range 5 {
				kit.Lock(t, kit.Background, other)
				ctx, leave := context.WithCancel(kit.Background)
				kept := kit.Async(func() error { return keeper.Lock(ctx) }) // keeps the session subscribed
				waiting(t, s, "lock", 1)
				leave()
				require.Error(t, kit.Receive(t, kept, "the keeper to leave"))
				waiting(t, s, "lock", 0)
				if free {
					kit.Unlock(t, kit.Background, other)
				}
				landed := kit.DropReplyOf(proxy, kit.AcquireSHA)
				got := kit.Async(func() error { return m.Lock(kit.Background) })
				kit.Receive(t, landed, "the reply to be lost")
				if !free {
					waiting(t, s, "lock", 1)
					kit.Unlock(t, kit.Background, other)
				}
				start := time.Now()
				require.NoError(t, kit.Receive(t, got, "the call to find out"))
				require.Less(t, time.Since(start), kit.Quickly)
				kit.HeldOnce(t, server, "lock")
				kit.Unlock(t, kit.Background, m)
				nothingOf(t, kit.NewClient(t, server), "lock")
			}
		})
	}
}

// A look is what finds the lock free, and its reply is lost; the message arrives, or is
// lost as well.
func TestFairMutexLostReplyToAProbe(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	client := kit.NewClient(t, server)
	s := kit.NewSession(t, proxy, relock.WithLease(2*time.Second)) // looks every second at least
	other := kit.NewSession(t, server).FairMutex("lock")
	warmUpFair(t, s)
	m := s.FairMutex("lock")
	for i := range 4 {
		kit.Lock(t, kit.Background, other)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		waiting(t, s, "lock", 1)
		kit.Receive(t, kit.DropReplyOf(proxy, kit.LookSHA), "a look to get no reply")
		require.NoError(t, client.Do(kit.Background, client.B().Del().Key("lock").Build()).Error())
		landed := kit.DropReplyOf(proxy, kit.LookSHA)
		kit.Receive(t, landed, "the look that takes the lock to get no reply")
		if i%2 == 0 {
			proxy.Cut()
		}
		require.NoError(t, kit.Receive(t, got, "the call to find out"))
		kit.HeldOnce(t, server, "lock")
		require.NoError(t, m.Err())
		kit.Unlock(t, kit.Background, m)
		require.ErrorIs(t, other.Unlock(kit.Background), relock.ErrLost)
	}
	nothingOf(t, client, "lock")
}

// What was granted is a claim, and its renewal gets no reply.
func TestFairMutexLostReplyToTheFirstRenewal(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	const lease = time.Second
	s, other := kit.NewSession(t, proxy, relock.WithLease(lease)), kit.NewSession(t, server, relock.WithLease(lease)).FairMutex("lock")
	warmUpFair(t, s)
	for _, opts := range [][]relock.LockOption{nil, {relock.WithFixedLease(2 * lease)}} {
		m := s.FairMutex("lock", opts...)
		kit.Lock(t, kit.Background, other)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		waiting(t, s, "lock", 1)
		landed := kit.DropReplyOf(proxy, kit.RenewSHA)
		kit.Unlock(t, kit.Background, other)
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		kit.Receive(t, landed, "the reply to be lost")
		time.Sleep(lease * 3 / 2)
		require.NoError(t, m.Err())
		kit.HeldOnce(t, server, "lock")
		kit.Unlock(t, kit.Background, m)
	}
}

// The next one has the lock, once, and the unlock succeeds.
func TestFairMutexLostReplyToAnUnlock(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, other := kit.NewSession(t, proxy), kit.NewSession(t, server)
	warmUpFair(t, s)
	m := s.FairMutex("lock")
	for range 5 {
		kit.Lock(t, kit.Background, m)
		next, last := other.FairMutex("lock"), other.FairMutex("lock")
		got := kit.Async(func() error { return next.Lock(kit.Background) })
		waiting(t, other, "lock", 1)
		behind := kit.Async(func() error { return last.Lock(kit.Background) })
		waiting(t, other, "lock", 2)
		landed := kit.DropReplyOf(proxy, kit.ReleaseSHA)
		kit.Unlock(t, kit.Background, m)
		kit.Receive(t, landed, "the reply to be lost")
		require.NoError(t, kit.Receive(t, got, "the next to get in"))
		require.NoError(t, next.Err())
		waiting(t, other, "lock", 1)
		kit.Unlock(t, kit.Background, next)
		require.NoError(t, kit.Receive(t, behind, "the last to get in"))
		kit.Unlock(t, kit.Background, last)
	}
	nothingOf(t, kit.NewClient(t, server), "lock")
}

// The lock has been given to a waiter, and the message is lost with its connection.
func TestFairMutexLostGrantIsFound(t *testing.T) {
	t.Parallel()
	server, proxy := kit.Proxied(t)
	s, other := kit.NewSession(t, proxy), kit.NewSession(t, server)
	warmUpFair(t, s)
	held, m := other.FairMutex("lock"), s.FairMutex("lock")
	for range 5 {
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return m.Lock(kit.Background) })
		waiting(t, s, "lock", 1)
		hears(t, server, s)
		proxy.Stall(true)
		kit.Unlock(t, kit.Background, held)
		require.Equal(t, s.ID(), kit.HoldersOf(t, other, "lock")[0].Session)
		start := time.Now()
		proxy.Cut()
		proxy.Stall(false)
		require.NoError(t, kit.Receive(t, got, "the waiter to find out"))
		require.Less(t, time.Since(start), kit.Quickly)
		require.NoError(t, m.Err())
		kit.HeldOnce(t, server, "lock")
		kit.Unlock(t, kit.Background, m)
	}
	nothingOf(t, kit.NewClient(t, server), "lock")
}
