package relock_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// dropReplyOf has the reply to the next command with all these words swallowed.
func dropReplyOf(p *redistest.Proxy, words ...string) (landed <-chan struct{}) {
	return p.DropReplies(func(request []byte) bool {
		for _, w := range words {
			if !bytes.Contains(request, []byte(w)) {
				return false
			}
		}
		return true
	})
}

// warmUpFair has the server know the scripts of FairMutexes.
func warmUpFair(t testing.TB, s *relock.Session) {
	t.Helper()
	a, b := s.FairMutex("warm-up"), s.FairMutex("warm-up")
	lock(t, background, a)
	got := async(func() error { return b.Lock(background) })
	waiting(t, s, "warm-up", 1)
	unlock(t, background, a)
	require.NoError(t, receive(t, got, "the second to get in"))
	unlock(t, background, b)
}

func TestFairMutexLostReplyToAFirstTry(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, other := newSession(t, proxy), newSession(t, server).FairMutex("lock")
	warmUpFair(t, s)
	m := s.FairMutex("lock")
	for range 5 {
		landed := dropReplyOf(proxy, enterSHA)
		lock(t, background, m)
		receive(t, landed, "the reply to be lost")
		heldOnce(t, server, "lock")
		token := m.FencingToken()
		unlock(t, background, m)
		lock(t, background, other)
		require.Greater(t, other.FencingToken(), token)
		time.Sleep(20 * time.Millisecond) // what the session does about the lost reply goes on
		require.Equal(t, 1, len(holdersOf(t, s, "lock")))
		require.NoError(t, other.Err())
		unlock(t, background, other)
	}
	nothingOf(t, newClient(t, server), "lock")
}

// The call is in the queue, or even has the lock, and does not know it.
func TestFairMutexLostReplyToTheOneThatQueues(t *testing.T) {
	for what, free := range map[string]bool{"queued": false, "granted": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server, proxy := proxied(t)
			s, other := newSession(t, proxy), newSession(t, server).FairMutex("lock")
			warmUpFair(t, s)
			m, keeper := s.FairMutex("lock"), s.FairMutex("lock")
			for range 5 {
				lock(t, background, other)
				ctx, leave := context.WithCancel(background)
				kept := async(func() error { return keeper.Lock(ctx) }) // keeps the session subscribed
				waiting(t, s, "lock", 1)
				leave()
				require.Error(t, receive(t, kept, "the keeper to leave"))
				waiting(t, s, "lock", 0)
				if free {
					unlock(t, background, other)
				}
				landed := dropReplyOf(proxy, enterSHA)
				got := async(func() error { return m.Lock(background) })
				receive(t, landed, "the reply to be lost")
				if !free {
					waiting(t, s, "lock", 1)
					unlock(t, background, other)
				}
				start := time.Now()
				require.NoError(t, receive(t, got, "the call to find out"))
				require.Less(t, time.Since(start), quickly)
				heldOnce(t, server, "lock")
				unlock(t, background, m)
				nothingOf(t, newClient(t, server), "lock")
			}
		})
	}
}

// A look is what finds the lock free, and its reply is lost; the message arrives, or is
// lost as well.
func TestFairMutexLostReplyToALook(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	client := newClient(t, server)
	s := newSession(t, proxy, relock.WithWatchdog(2*time.Second)) // looks every second at least
	other := newSession(t, server).FairMutex("lock")
	warmUpFair(t, s)
	m := s.FairMutex("lock")
	for i := range 4 {
		lock(t, background, other)
		got := async(func() error { return m.Lock(background) })
		waiting(t, s, "lock", 1)
		receive(t, dropReplyOf(proxy, lookSHA), "a look to get no reply")
		require.NoError(t, client.Do(background, client.B().Del().Key("lock").Build()).Error())
		landed := dropReplyOf(proxy, lookSHA)
		receive(t, landed, "the look that takes the lock to get no reply")
		if i%2 == 0 {
			proxy.Cut()
		}
		require.NoError(t, receive(t, got, "the call to find out"))
		heldOnce(t, server, "lock")
		require.NoError(t, m.Err())
		unlock(t, background, m)
		require.ErrorIs(t, other.Unlock(background), relock.ErrLost)
	}
	nothingOf(t, client, "lock")
}

// What was granted is a claim, and its renewal gets no reply.
func TestFairMutexLostReplyToTheFirstRenewal(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	const lease = time.Second
	s, other := newSession(t, proxy, relock.WithWatchdog(lease)), newSession(t, server, relock.WithWatchdog(lease)).FairMutex("lock")
	warmUpFair(t, s)
	for _, opts := range [][]relock.LockOption{nil, {relock.WithLease(2 * lease)}} {
		m := s.FairMutex("lock", opts...)
		lock(t, background, other)
		got := async(func() error { return m.Lock(background) })
		waiting(t, s, "lock", 1)
		landed := dropReplyOf(proxy, renewSHA)
		unlock(t, background, other)
		require.NoError(t, receive(t, got, "the waiter to get in"))
		receive(t, landed, "the reply to be lost")
		time.Sleep(lease * 3 / 2)
		require.NoError(t, m.Err())
		heldOnce(t, server, "lock")
		unlock(t, background, m)
	}
}

// The next one has the lock, once, and the unlock succeeds.
func TestFairMutexLostReplyToAnUnlock(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, other := newSession(t, proxy), newSession(t, server)
	warmUpFair(t, s)
	m := s.FairMutex("lock")
	for range 5 {
		lock(t, background, m)
		next, last := other.FairMutex("lock"), other.FairMutex("lock")
		got := async(func() error { return next.Lock(background) })
		waiting(t, other, "lock", 1)
		behind := async(func() error { return last.Lock(background) })
		waiting(t, other, "lock", 2)
		landed := dropReplyOf(proxy, leaveSHA)
		unlock(t, background, m)
		receive(t, landed, "the reply to be lost")
		require.NoError(t, receive(t, got, "the next to get in"))
		require.NoError(t, next.Err())
		waiting(t, other, "lock", 1)
		unlock(t, background, next)
		require.NoError(t, receive(t, behind, "the last to get in"))
		unlock(t, background, last)
	}
	nothingOf(t, newClient(t, server), "lock")
}

// The lock has been given to a waiter, and the message is lost with its connection.
func TestFairMutexLostGrantIsFound(t *testing.T) {
	t.Parallel()
	server, proxy := proxied(t)
	s, other := newSession(t, proxy), newSession(t, server)
	warmUpFair(t, s)
	held, m := other.FairMutex("lock"), s.FairMutex("lock")
	for range 5 {
		lock(t, background, held)
		got := async(func() error { return m.Lock(background) })
		waiting(t, s, "lock", 1)
		proxy.Stall(true)
		unlock(t, background, held)
		require.Equal(t, s.ID(), holdersOf(t, other, "lock")[0].Session)
		start := time.Now()
		proxy.Cut()
		proxy.Stall(false)
		require.NoError(t, receive(t, got, "the waiter to find out"))
		require.Less(t, time.Since(start), quickly)
		require.NoError(t, m.Err())
		heldOnce(t, server, "lock")
		unlock(t, background, m)
	}
	nothingOf(t, newClient(t, server), "lock")
}
