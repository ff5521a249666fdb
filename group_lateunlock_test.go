package relock_test

import (
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lostWhole has a group lose every member.
func lostWhole(t *testing.T, s *relock.Session, g *relock.Group, names ...string) {
	t.Helper()
	for _, name := range names {
		was, err := s.ForceUnlock(background, name)
		require.NoError(t, err)
		require.True(t, was)
	}
	receive(t, g.Done(), "the loss")
}

// An unlock without an owner, after the loss of an owner's hold, may be that one's late
// one. It is counted as such; when the owner then unlocks as itself, that stands for the
// one before. The hold of whoever came first stayed for ever.
func TestEveryHoldOfAGroupEndsHoweverItsUnlocksAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at), newClient(t, at)
		g := relock.NewGroup(s.Mutex("a"), s.FairMutex("b"))
		owner := s.NewContext(background)
		free := func() {
			t.Helper()
			redistest.Eventually(t, quickly, "the group to be free", func() bool { return len(keys(t, client)) == 0 })
		}
		lock(t, owner, g)
		lostWhole(t, s, g, "a", "b")
		lock(t, background, g) // another goroutine's
		require.ErrorIs(t, g.Unlock(background), relock.ErrLost)
		require.NoError(t, g.Err(), "the group is rather locked for too long than unlocked under somebody")
		require.ErrorIs(t, g.Unlock(owner), relock.ErrLost)
		require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
		free()
		require.ErrorIs(t, g.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, g.Unlock(background), relock.ErrNotHeld)

		// The owner's comes first: no doubt.
		lock(t, owner, g)
		lostWhole(t, s, g, "a", "b")
		lock(t, background, g)
		require.ErrorIs(t, g.Unlock(owner), relock.ErrLost)
		require.NoError(t, g.Err())
		unlock(t, background, g)
		free()
	})
}
