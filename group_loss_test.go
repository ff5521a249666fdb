package relock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestGroupIsLostWithItsFirstMember(t *testing.T) {
	eachGroup(t, func(t *testing.T, at addressed, make func(*relock.Session) *relock.Group) {
		s, client := newSession(t, at), newClient(t, at)
		g := make(s)
		for _, name := range []string{"a", "b", "c"} {
			lock(t, background, g)
			done := g.Done()
			was, err := s.ForceUnlock(background, name)
			require.NoError(t, err)
			require.True(t, was)
			receive(t, done, "the loss")
			require.ErrorIs(t, g.Err(), relock.ErrLost)
			require.NotEmpty(t, keys(t, client), "the others are held until Unlock")
			err = g.Unlock(background)
			require.ErrorIs(t, err, relock.ErrLost)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.ErrorIs(t, g.Unlock(background), relock.ErrNotHeld)
			redistest.Eventually(t, quickly, "the others to be free", func() bool { return len(keys(t, client)) == 0 })
			require.ErrorIs(t, g.Err(), relock.ErrLost, "until the next Lock")
		}
		lock(t, background, g)
		require.NoError(t, g.Err())
		unlock(t, background, g)
	})
}

// A late Unlock cannot be told from that of the next holder. Anonymous calls through the
// same value wait for it, as those through a Mutex do; owners and other values do not.
func TestAfterTheLossOfAGroupAnonymousCallsWaitForItsUnlock(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		g := relock.NewGroup(s.Mutex("a"), s.FairMutex("b"))
		lock(t, background, g)
		_, err := s.ForceUnlock(background, "a")
		require.NoError(t, err)
		_, err = s.ForceUnlock(background, "b")
		require.NoError(t, err)
		receive(t, g.Done(), "the loss")

		require.False(t, tryLock(t, background, g))
		ctx, cancel := contextFor(50 * time.Millisecond)
		defer cancel()
		wantStopped(t, g.Lock(ctx), context.DeadlineExceeded)
		owner := s.NewContext(background)
		lock(t, owner, g)
		unlock(t, owner, g)
		same := relock.NewGroup(s.Mutex("a"), s.FairMutex("b"))
		lock(t, background, same)
		unlock(t, background, same)

		got := async(func() error { return g.Lock(background) })
		require.ErrorIs(t, g.Unlock(background), relock.ErrLost)
		require.NoError(t, receive(t, got, "the call that waited"))
		unlock(t, background, g)
	})
}

func TestAfterTheLossOfAGroupItsCallsEndWithTheSession(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := newSession(t, m)
	g := relock.NewGroup(s.Mutex("a"), relock.NewGroup(s.FairMutex("b")))
	lock(t, background, g)
	_, err := s.ForceUnlock(background, "a")
	require.NoError(t, err)
	got := async(func() error { return g.Lock(background) })
	time.Sleep(10 * time.Millisecond) // it waits, or will
	require.NoError(t, s.Close(background))
	require.ErrorIs(t, receive(t, got, "the waiting call"), relock.ErrClosed)
	require.ErrorIs(t, g.Unlock(background), relock.ErrLost)
}

func TestClosingASessionEndsItsGroups(t *testing.T) {
	eachGroup(t, func(t *testing.T, at addressed, make func(*relock.Session) *relock.Group) {
		s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
		g, taken := make(s), other.Mutex("c")
		lock(t, background, taken)
		waiting := async(func() error { return make(s).Lock(background) })
		awaitedBy(t, s, "c")
		free := relock.NewGroup(s.Mutex("x"), s.Mutex("y"))
		lock(t, background, free)
		require.NoError(t, s.Close(background))
		require.ErrorIs(t, receive(t, waiting, "the waiting call"), relock.ErrClosed)
		receive(t, free.Done(), "the loss")
		require.ErrorIs(t, free.Err(), relock.ErrLost)
		require.ErrorIs(t, free.Unlock(background), relock.ErrLost)
		require.ErrorIs(t, g.Lock(background), relock.ErrClosed)
		_, err := g.TryLock(background)
		require.ErrorIs(t, err, relock.ErrClosed)
		require.Equal(t, []string{"c"}, keys(t, client))
	})
}

// A server that does not answer keeps the members on others locked no longer than it
// takes to release them; what it knows of itself ends with the lease.
func TestUnlockOfAGroupTriesEveryMember(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	hangs, works := redistest.Start(t), redistest.Start(t)
	s, far := newSession(t, works, relock.WithWatchdog(lease)), newSession(t, hangs, relock.WithWatchdog(lease))
	client := newClient(t, works)
	g := relock.NewGroup(s.Mutex("a"), far.Mutex("b"), s.FairMutex("c"), far.RWMutex("d"), s.RWMutex("e"))
	lock(t, background, g)
	require.NoError(t, hangs.Freeze())
	unlocked := async(func() error { return g.Unlock(background) })
	redistest.Eventually(t, lease/2, "the others to be free", func() bool { return len(keys(t, client)) == 0 })
	err := receive(t, unlocked, "Unlock")
	require.ErrorIs(t, err, relock.ErrLost)
	for _, name := range []string{`"b"`, `"d"`} {
		require.Contains(t, err.Error(), name)
	}
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	require.NotContains(t, err.Error(), `"a"`)
	require.NoError(t, hangs.Thaw())
	lock(t, background, g)
	unlock(t, background, g)
}

// An owner that has a member for long and locks groups of it again and again leaves
// nothing with the member's hold. Each lock of the group used to.
func TestGroupsLeaveNothingWithTheHoldsOfTheirMembers(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := newSession(t, m)
	ctx := s.NewContext(background)
	a := s.Mutex("a")
	lock(t, ctx, a)
	g := relock.NewGroup(a, s.Mutex("b"))
	for range 100 {
		lock(t, ctx, g)
		unlock(t, ctx, g)
	}
	require.Zero(t, peek.Watchers(s, "a"))
	lock(t, ctx, g)
	require.Equal(t, 1, peek.Watchers(s, "a"))
	unlock(t, ctx, g)
	unlock(t, ctx, a)
}
