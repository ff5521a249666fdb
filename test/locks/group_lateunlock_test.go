package locks_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lostWhole has a group lose every member.
func lostWhole(t *testing.T, s *relock.Session, g *relock.Group, names ...string) {
	t.Helper()
	for _, name := range names {
		was, err := s.ForceUnlock(kit.Background, name)
		require.NoError(t, err)
		require.True(t, was)
	}
	kit.Receive(t, g.Done(), "the loss")
}

// An unlock without an owner, after the loss of an owner's hold, may be that one's late
// one. It is counted as such; when the owner then unlocks as itself, that stands for the
// one before. The hold of whoever came first stayed for ever.
func TestEveryHoldOfAGroupEndsHoweverItsUnlocksAreCounted(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		g := relock.NewGroup(s.Mutex("a"), s.FairMutex("b"))
		owner := s.NewContext(kit.Background)
		free := func() {
			t.Helper()
			redistest.Eventually(t, kit.Quickly, "the group to be free", func() bool { return len(kit.Keys(t, client)) == 0 })
		}
		kit.Lock(t, owner, g)
		lostWhole(t, s, g, "a", "b")
		kit.Lock(t, kit.Background, g) // another goroutine's
		require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrLost)
		require.NoError(t, g.Err(), "the group is rather locked for too long than unlocked under somebody")
		require.ErrorIs(t, g.Unlock(owner), relock.ErrLost)
		require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
		free()
		require.ErrorIs(t, g.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrNotHeld)

		// The owner's comes first: no doubt.
		kit.Lock(t, owner, g)
		lostWhole(t, s, g, "a", "b")
		kit.Lock(t, kit.Background, g)
		require.ErrorIs(t, g.Unlock(owner), relock.ErrLost)
		require.NoError(t, g.Err())
		kit.Unlock(t, kit.Background, g)
		free()
	})
}
