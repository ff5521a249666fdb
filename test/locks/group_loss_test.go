package locks_test

import (
	"strings"
	"testing"

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
