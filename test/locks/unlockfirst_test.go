package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// A section whose hold was lost may go on for a while. Code that it calls gets no new hold, which
// would look as if nothing had happened: ErrLost until the owner has unlocked.
func TestAnOwnerMustUnlockWhatItHasLostBeforeItLocksAgain(t *testing.T) {
	t.Parallel()
	for name, kind := range lateKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ss := kind.sessions(t)
			outer, nested := kind.of(ss), kind.of(ss)
			ctx, cancel := context.WithTimeout(ss[0].NewContext(kit.Background), kit.Soon)
			defer cancel()
			kit.Lock(t, ctx, outer)
			skip(ss)
			kit.Receive(t, outer.Done(), "the loss")
			for _, l := range []relock.Locker{outer, nested} {
				if _, group := l.(*relock.Group); group && l != outer {
					continue // each group value counts by itself; its members refuse, see below
				}
				require.ErrorIs(t, l.Lock(ctx), relock.ErrLost)
				ok, err := l.TryLock(ctx)
				require.False(t, ok)
				require.ErrorIs(t, err, relock.ErrLost)
				require.ErrorContains(t, err, "unlock the lost hold before locking again")
				require.ErrorIs(t, relock.Do(ctx, l, func(context.Context) error {
					return errors.New("f must not run")
				}), relock.ErrLost)
			}
			other := ss[0].NewContext(kit.Background) // is not affected
			kit.Lock(t, other, nested)
			kit.Unlock(t, other, nested)
			require.ErrorIs(t, outer.Unlock(ctx), relock.ErrLost)
			kit.Lock(t, ctx, nested)
			kit.Unlock(t, ctx, nested)
		})
	}
}

// Each side of an RWMutex is that lock: a downgrade within a write hold that was lost is none.
func TestAWriterThatLostItsHoldCannotReadOn(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		rw, ctx := s.RWMutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, ctx, rw)
		forceUnlock(t, s, rw)
		require.ErrorIs(t, rw.RLock(ctx), relock.ErrLost)
		require.ErrorIs(t, rw.Lock(ctx), relock.ErrLost)
		require.ErrorIs(t, rw.Unlock(ctx), relock.ErrLost)
		kit.Lock(t, ctx, rw.RLocker())
		kit.Unlock(t, ctx, rw.RLocker())
	})
}

// A member that its owner has lost outside the group cannot be locked through the group.
func TestAGroupLocksNoMemberThatItsOwnerHasLost(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		for _, m := range []relock.Locker{s.Mutex("lock"), s.FairMutex("lock")} {
			ctx, cancel := context.WithTimeout(s.NewContext(kit.Background), kit.Soon)
			defer cancel()
			kit.Lock(t, ctx, m)
			_, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			kit.Receive(t, m.Done(), "the loss")
			g := relock.NewGroup(m, s.Mutex("z"))
			require.ErrorIs(t, g.Lock(ctx), relock.ErrLost)
			_, err = g.TryLock(ctx)
			require.ErrorIs(t, err, relock.ErrLost)
			require.ErrorIs(t, m.Unlock(ctx), relock.ErrLost)
			kit.Lock(t, ctx, g)
			kit.Unlock(t, ctx, g)
		}
	})
}

// An anonymous call through the handle of a lost hold says what it misses. The lock is free.
func TestACallThatAMissingUnlockBlocksSaysSo(t *testing.T) {
	t.Parallel()
	const text = "unlock the lost hold before locking again"
	for name, kind := range lateKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ss := kind.sessions(t)
			l := kind.of(ss)
			kit.Lock(t, kit.Background, l)
			skip(ss)
			kit.Receive(t, l.Done(), "the loss")
			ok, err := l.TryLock(kit.Background)
			require.False(t, ok)
			require.ErrorIs(t, err, relock.ErrLost)
			require.ErrorContains(t, err, text)
			ctx, cancel := context.WithTimeout(kit.Background, 20*time.Millisecond)
			defer cancel()
			err = l.Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, relock.ErrLost)
			require.ErrorContains(t, err, text)

			other := kind.of(ss) // another handle is not blocked, once Redis knows of the end of the lost hold
			kit.Lock(t, kit.Background, other)
			kit.Unlock(t, kit.Background, other)
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
			require.True(t, kit.TryLock(t, kit.Background, l))
			kit.Unlock(t, kit.Background, l)
		})
	}
}
