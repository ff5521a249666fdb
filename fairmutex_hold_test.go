package relock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// granted returns with m held by a grant: the unlock of another session's value.
func granted(t testing.TB, from *relock.FairMutex, s *relock.Session, m *relock.FairMutex) {
	t.Helper()
	lock(t, background, from)
	got := async(func() error { return m.Lock(background) })
	waiting(t, s, "lock", 1)
	unlock(t, background, from)
	require.NoError(t, receive(t, got, "the waiter to get in"))
}

// What is granted is a claim, which becomes a lease like any other.
func TestFairMutexGrantIsRenewed(t *testing.T) {
	t.Parallel()
	const claim = 3 * time.Second // which is the lease of the session that unlocks
	server := redistest.Start(t)
	from := newSession(t, server, relock.WithWatchdog(claim)).FairMutex("lock")
	for _, lease := range []time.Duration{claim, claim * 2 / 3, 30 * time.Second} {
		s := newSession(t, server, relock.WithWatchdog(lease))
		m := s.FairMutex("lock")
		granted(t, from, s, m)
		done, token := m.Done(), m.FencingToken()
		redistest.Eventually(t, soon, "the first renewal", func() bool {
			state, err := s.Inspect(background, "lock")
			d, ok := m.Deadline()
			return err == nil && state.TTL <= lease && state.TTL > lease/2 && ok && time.Until(d) > lease/2
		})
		time.Sleep(claim + claim/6)
		require.NoError(t, m.Err())
		require.False(t, isClosed(done))
		require.Equal(t, token, m.FencingToken())
		unlock(t, background, m)
		require.True(t, isClosed(done))
	}
}

// A fixed lease ends when it says, also if it came by a grant, and whether the claim is
// longer or shorter. Then the next one gets in.
func TestFairMutexFixedLeaseEndsOnTime(t *testing.T) {
	const lease = 1500 * time.Millisecond
	for _, watchdog := range []time.Duration{30 * time.Second, time.Second} {
		for _, how := range []string{"at once", "by a grant"} {
			t.Run(fmt.Sprint(how, ", watchdog ", watchdog), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				client := newClient(t, server)
				s, other := newSession(t, server, relock.WithWatchdog(watchdog)), newSession(t, server, relock.WithWatchdog(watchdog))
				m, next := s.FairMutex("lock", relock.WithLease(lease)), other.FairMutex("lock")
				if how == "at once" {
					lock(t, background, m)
				} else {
					granted(t, next, s, m)
				}
				start, watch := time.Now(), startWatch()
				got := async(func() error { return next.Lock(background) })
				lostIn(t, soon, m)
				require.Less(t, watch.took(), lease+slack)
				require.Greater(t, time.Since(start)+watch.held(), lease-slack)
				require.NoError(t, receive(t, got, "the next to get in"))
				require.Less(t, watch.took(), lease+slack+quickly)
				require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
				require.NoError(t, next.Err())
				unlock(t, background, next)
				nothingOf(t, client, "lock")
			})
		}
	}
}

func TestFairMutexMaxHoldEndsTheHold(t *testing.T) {
	t.Parallel()
	const lease, most = 600 * time.Millisecond, time.Second
	server := redistest.Start(t)
	s, other := newSession(t, server, relock.WithWatchdog(lease)), newSession(t, server, relock.WithWatchdog(lease))
	m, from := s.FairMutex("lock", relock.WithMaxHold(most)), other.FairMutex("lock")
	for _, how := range []string{"at once", "by a grant"} {
		if how == "at once" {
			lock(t, background, m)
		} else {
			granted(t, from, s, m)
		}
		start, watch := time.Now(), startWatch()
		got := async(func() error { return from.Lock(background) })
		lostIn(t, soon, m)
		require.Greater(t, time.Since(start)+watch.held(), most-slack, how)
		require.Less(t, watch.took(), most+lease+slack, how)
		require.NoError(t, receive(t, got, "the next to get in"))
		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		unlock(t, background, from)
	}
}

// The holder is told, and the lock goes to the first waiter, also of the same session.
func TestFairMutexForcedOpenGoesToTheNext(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		for _, by := range []*relock.Session{s, other} {
			for _, to := range []*relock.Session{s, other} {
				m, next := s.FairMutex("lock"), to.FairMutex("lock")
				lock(t, background, m)
				token := m.FencingToken()
				got := async(func() error { return next.Lock(background) })
				waiting(t, s, "lock", 1)
				was, err := by.ForceUnlock(background, "lock")
				require.NoError(t, err)
				require.True(t, was)
				require.NoError(t, receive(t, got, "the next to get in"))
				lostIn(t, quickly, m)
				require.Greater(t, next.FencingToken(), token)
				require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
				require.NoError(t, next.Err())
				unlock(t, background, next)
				was, err = by.ForceUnlock(background, "lock")
				require.NoError(t, err)
				require.False(t, was)
			}
		}
	})
}

// A place in the queue costs nothing but its looks: no goroutine, no connection, and no
// script when the owner enters again.
func TestFairMutexReentryAsksNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	warmUpFair(t, s)
	m, same, owner := s.FairMutex("lock"), s.FairMutex("lock"), s.NewContext(background)
	lock(t, owner, m)
	done, token := m.Done(), m.FencingToken()
	cost := trafficOf(server, func() {
		for range 10 {
			lock(t, owner, same)
			require.True(t, tryLock(t, owner, m))
			unlock(t, owner, m)
		}
	})
	require.Zero(t, cost)
	require.Equal(t, token, same.FencingToken())
	for range 10 {
		require.False(t, tryLock(t, background, other.FairMutex("lock")))
		unlock(t, owner, m)
	}
	require.False(t, isClosed(done))
	unlock(t, owner, m)
	require.True(t, isClosed(done))
	require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
	require.True(t, tryLock(t, background, other.FairMutex("lock")))
}

// Goroutines that share an owner enter together: what the others have queued for is
// given back, and goes to the next.
func TestFairMutexWaitersOfOneOwnerEnterTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		const n = 6
		s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
		m, owner := s.FairMutex("lock"), s.NewContext(background)
		for _, from := range []*relock.FairMutex{s.FairMutex("lock"), other.FairMutex("lock")} {
			lock(t, background, from)
			got := make(chan error, n)
			for range n {
				go func() { got <- m.Lock(owner) }()
			}
			waiting(t, s, "lock", n)
			last := other.FairMutex("lock")
			behind := async(func() error { return last.Lock(background) })
			waiting(t, s, "lock", n+1)
			unlock(t, background, from)
			for range n {
				require.NoError(t, receive(t, got, "every goroutine of the owner to enter"))
			}
			waiting(t, s, "lock", 1)
			for range n {
				require.NoError(t, m.Err())
				unlock(t, owner, m)
			}
			require.ErrorIs(t, m.Unlock(owner), relock.ErrNotHeld)
			require.NoError(t, receive(t, behind, "the one behind to get in"))
			unlock(t, background, last)
			nothingOf(t, client, "lock")
		}
	})
}

// Which of two goroutines calls a bare Unlock cannot be known after a loss; see
// TestWhoSharesAValueWithALostHoldWaitsForItsUnlock.
func TestFairMutexWaitsForTheUnlockOfALostHold(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		m, owner := s.FairMutex("lock"), s.NewContext(background)
		lock(t, background, m)
		forceUnlock(t, s, m)
		require.False(t, tryLock(t, background, m))
		waiter := async(func() error { return m.Lock(background) })
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, m.Lock(ctx), context.DeadlineExceeded, "nor does waiting help")
		for range 3 { // past the one that waits
			other := s.FairMutex("lock")
			lock(t, background, other)
			unlock(t, background, other)
			lock(t, owner, m)
			unlock(t, owner, m)
		}
		require.Empty(t, keys(t, client), "it does not even queue")
		require.ErrorIs(t, m.Unlock(background), relock.ErrLost)
		require.NoError(t, receive(t, waiter, "the waiter to get in after that unlock"))
		unlock(t, background, m)
		require.ErrorIs(t, m.Unlock(background), relock.ErrNotHeld)
	})
}
