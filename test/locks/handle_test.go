package locks_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Without an owner in the context the handle is the owner, and behaves as a sync.Mutex or sync.RWMutex does.

// Unlock without an owner ends what was last taken through the handle, also by an owner, and nothing that
// was taken through another one.
func TestUnlockEndsWhatWasLastTaken(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		s := kit.NewSession(t, redistest.Start(t))
		one, two := k.on(s, "lock"), k.on(s, "lock")
		nobody, a, b := kit.Background, s.NewContext(kit.Background), s.NewContext(kit.Background)
		held := func(l relock.Locker, ctx context.Context) {
			t.Helper()
			require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
			require.False(t, kit.TryLock(t, b, two))
		}
		free := func() {
			t.Helper()
			require.True(t, kit.TryLock(t, b, two))
			kit.Unlock(t, b, two)
		}
		require.ErrorIs(t, one.Unlock(nobody), relock.ErrNotHeld)
		kit.Lock(t, nobody, one)
		held(one, a)
		held(two, nobody)
		kit.Unlock(t, nobody, one)
		free()

		kit.Lock(t, a, one)
		kit.Lock(t, a, one)
		held(one, b)
		held(two, nobody)
		kit.Unlock(t, nobody, one)
		held(one, b)
		kit.Unlock(t, nobody, one)
		require.ErrorIs(t, one.Unlock(a), relock.ErrNotHeld)
		free()

		kit.Lock(t, a, one)
		kit.Lock(t, a, two)
		kit.Unlock(t, nobody, two)
		require.NoError(t, one.Err())
		kit.Unlock(t, a, two)
		free()
	}, fenced)
}

// Readers through one handle share a hold, which counts them; their owners have others.
func TestReadersOfOneHandleAreCounted(t *testing.T) {
	for what, o := range map[string][]relock.LockOption{"shared lease": nil} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := kit.NewSession(t, server)
			rw := s.RWMutex("lock", o...)
			r, owner := rw.RLocker(), s.NewContext(kit.Background)
			kit.Lock(t, kit.Background, r)
			done := r.Done()
			kit.Lock(t, kit.Background, r)
			require.True(t, kit.TryLock(t, kit.Background, r))
			require.Equal(t, done, r.Done())
			require.ErrorIs(t, rw.Err(), relock.ErrNotHeld, "the other side")
			require.False(t, kit.TryLock(t, kit.Background, rw))
			redistest.Eventually(t, kit.Quickly, "one lease", func() bool { return len(kit.HoldersOf(t, s, "lock")) == 1 })

			kit.Lock(t, owner, r) // the last that was taken, which Unlock without an owner ends
			kit.Unlock(t, kit.Background, r)
			require.ErrorIs(t, r.Unlock(owner), relock.ErrNotHeld)
			for range 2 {
				kit.Unlock(t, kit.Background, r)
				require.False(t, kit.IsClosed(done))
			}
			kit.Unlock(t, kit.Background, r)
			require.True(t, kit.IsClosed(done))
			require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
			mustBeQuiet(t, kit.NewClient(t, server), "lock", s)

			kit.Lock(t, kit.Background, r)
			kit.Lock(t, kit.Background, r)
			force(t, r, "lock", s)
			for range 2 { // each of them hears of it
				require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrLost)
			}
			require.True(t, kit.TryLock(t, kit.Background, r))
		})
	}
}
