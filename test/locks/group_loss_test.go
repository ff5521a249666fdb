package locks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestGroupIsLostWithItsFirstMember(t *testing.T) {
	eachGroup(t, func(t *testing.T, at kit.Addressed, make func(*relock.Session) *relock.Group) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		g := make(s)
		for _, name := range []string{"a", "b", "c"} {
			kit.Lock(t, kit.Background, g)
			done := g.Done()
			was, err := s.ForceUnlock(kit.Background, name)
			require.NoError(t, err)
			require.True(t, was)
			kit.Receive(t, done, "the loss")
			require.ErrorIs(t, g.Err(), relock.ErrLost)
			require.NotEmpty(t, kit.Keys(t, client), "the others are held until Unlock")
			err = g.Unlock(kit.Background)
			require.ErrorIs(t, err, relock.ErrLost)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrNotHeld)
			redistest.Eventually(t, kit.Quickly, "the others to be free", func() bool { return len(kit.Keys(t, client)) == 0 })
			require.ErrorIs(t, g.Err(), relock.ErrLost, "until the next Lock")
		}
		kit.Lock(t, kit.Background, g)
		require.NoError(t, g.Err())
		kit.Unlock(t, kit.Background, g)
	})
}

func TestClosingASessionEndsItsGroups(t *testing.T) {
	eachGroup(t, func(t *testing.T, at kit.Addressed, make func(*relock.Session) *relock.Group) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		g, taken := make(s), other.Mutex("c")
		kit.Lock(t, kit.Background, taken)
		waiting := kit.Async(func() error { return make(s).Lock(kit.Background) })
		awaitedBy(t, s, "c")
		free := relock.NewGroup(s.Mutex("x"), s.Mutex("y"))
		kit.Lock(t, kit.Background, free)
		require.NoError(t, s.Close(kit.Background))
		require.ErrorIs(t, kit.Receive(t, waiting, "the waiting call"), relock.ErrClosed)
		kit.Receive(t, free.Done(), "the loss")
		require.ErrorIs(t, free.Err(), relock.ErrLost)
		require.ErrorIs(t, free.Unlock(kit.Background), relock.ErrLost)
		require.ErrorIs(t, g.Lock(kit.Background), relock.ErrClosed)
		_, err := g.TryLock(kit.Background)
		require.ErrorIs(t, err, relock.ErrClosed)
		require.Equal(t, []string{"c"}, kit.Keys(t, client))
	})
}

// A server that does not answer keeps the members on others locked no longer than it
// takes to release them; what it knows of itself ends with the lease.
func TestUnlockOfAGroupTriesEveryMember(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	hangs, works := redistest.Start(t), redistest.Start(t)
	s, far := kit.NewSession(t, works, relock.WithLease(lease)), kit.NewSession(t, hangs, relock.WithLease(lease))
	client := kit.NewClient(t, works)
	g := relock.NewGroup(s.Mutex("a"), far.Mutex("b"), s.FairMutex("c"), far.RWMutex("d"), s.RWMutex("e"))
	kit.Lock(t, kit.Background, g)
	require.NoError(t, hangs.Freeze())
	unlocked := kit.Async(func() error { return g.Unlock(kit.Background) })
	redistest.Eventually(t, lease/2, "the others to be free", func() bool { return len(kit.Keys(t, client)) == 0 })
	require.NoError(t, kit.Receive(t, unlocked, "Unlock"), "all were certain when it was called")
	require.NoError(t, hangs.Thaw())
	kit.Lock(t, kit.Background, g)
	kit.Unlock(t, kit.Background, g)
}

// An owner that has a member for long and locks groups of it again and again leaves
// nothing with the member's hold. Each lock of the group used to.
func TestGroupsLeaveNothingWithTheHoldsOfTheirMembers(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m)
	ctx := s.NewContext(kit.Background)
	a := s.Mutex("a")
	kit.Lock(t, ctx, a)
	g := relock.NewGroup(a, s.Mutex("b"))
	for range 100 {
		kit.Lock(t, ctx, g)
		kit.Unlock(t, ctx, g)
	}
	require.Zero(t, peek.Watchers(s, "a"))
	kit.Lock(t, ctx, g)
	require.Equal(t, 1, peek.Watchers(s, "a"))
	kit.Unlock(t, ctx, g)
	kit.Unlock(t, ctx, a)
}
