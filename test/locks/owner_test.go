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

// An owner enters again what it holds, through any handle, without asking Redis, as often
// as it likes; its last unlock releases.
func TestReentrySendsOneAcquire(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		s := kit.NewSession(t, server)
		other, one, owner := k.Holder(kit.NewSession(t, server)), k.Of(s), s.NewContext(kit.Background)
		locks := []relock.Locker{one, one, k.Of(s)}
		kit.Lock(t, owner, one)
		kit.Unlock(t, owner, one) // the server knows the scripts
		kit.HoldersOf(t, s, "lock")
		cost := trafficOf(server, func() {
			for _, l := range locks {
				kit.Lock(t, owner, l)
				require.True(t, kit.TryLock(t, owner, l))
				kit.Unlock(t, owner, l)
			}
		})
		require.EqualValues(t, 1, cost.scripts, "one acquire")
		require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
		require.Equal(t, 1, kit.HoldersOf(t, s, "lock")[0].Count, "Redis sees one")
		require.False(t, kit.TryLock(t, kit.Background, other))
		done := locks[2].Done()
		cost = trafficOf(server, func() {
			for _, l := range locks {
				require.NoError(t, l.Err())
				require.False(t, kit.IsClosed(done))
				kit.Unlock(t, owner, l)
			}
		})
		require.EqualValues(t, 1, cost.scripts, "one release")
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, one.Unlock(owner), relock.ErrNotHeld)
		require.True(t, kit.TryLock(t, kit.Background, other))
	})
}

func TestOwnersExcludeEachOther(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		m := k.of(ss, "lock")
		for _, ctx := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
			for _, other := range []context.Context{kit.Background, ss[0].NewContext(kit.Background)} {
				kit.Lock(t, ctx, m)
				require.False(t, kit.TryLock(t, other, m))
				got := kit.Async(func() error { return m.Lock(other) })
				time.Sleep(5 * time.Millisecond)
				require.Empty(t, got)
				kit.Unlock(t, ctx, m)
				require.NoError(t, kit.Receive(t, got, "the other one to get in"))
				kit.Unlock(t, other, m)
			}
		}
	}, exclusive)
}

func TestContextsCarryOwners(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		_, ok := relock.FromContext(kit.Background)
		require.False(t, ok)
		s, minter := kit.NewSession(t, at), kit.NewSession(t, at)
		m, outer := s.Mutex("lock"), minter.NewContext(kit.Background) // another session's is honoured
		from, ok := relock.FromContext(outer)
		require.True(t, ok)
		require.Same(t, minter, from)
		derived := context.WithValue(outer, traffic{}, 1)
		kit.Lock(t, outer, m)
		require.True(t, kit.TryLock(t, derived, m))
		require.False(t, kit.TryLock(t, outer, minter.Mutex("lock")), "the hold is of another session")
		inner := s.NewContext(derived)
		require.False(t, kit.TryLock(t, inner, m), "the innermost owner counts")
		kit.Unlock(t, outer, m)
		kit.Unlock(t, derived, m)
		require.True(t, kit.TryLock(t, inner, m))
		require.False(t, kit.TryLock(t, derived, m))
	})
}

// What a handle tells of its hold, while it is held, after its end and after its loss.
func TestHandleDescribesItsLatestHold(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		l := k.of(ss, "lock")
		nothing := func(l relock.Locker) {
			t.Helper()
			require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
			require.NotErrorIs(t, l.Err(), relock.ErrLost)
			require.True(t, kit.IsClosed(l.Done()))
			for _, ctx := range []context.Context{kit.Background, ss[0].NewContext(kit.Background), kit.Cancelled()} {
				err := l.Unlock(ctx)
				require.ErrorIs(t, err, relock.ErrNotHeld)
				require.NotErrorIs(t, err, context.Canceled, "Unlock ignores the end of its context")
			}
			if fenced, ok := l.(kit.FencedLocker); ok {
				require.Zero(t, fenced.FencingToken())
			}
		}
		nothing(l)
		last := int64(0)
		for range 3 {
			kit.Lock(t, kit.Background, l)
			done := l.Done()
			require.NoError(t, l.Err())
			require.False(t, kit.IsClosed(done))
			require.Equal(t, done, l.Done(), "the channel stays the same")
			if fenced, ok := l.(kit.FencedLocker); ok {
				require.Greater(t, fenced.FencingToken(), last)
				last = fenced.FencingToken()
			}
			nothing(k.of(ss, "lock")) // another handle has taken nothing
			kit.Unlock(t, kit.Background, l)
			require.True(t, kit.IsClosed(done))
			nothing(l)
		}
		kit.Lock(t, kit.Background, l)
		k.lose(t, ss, "lock", l)
		if fenced, ok := l.(kit.FencedLocker); ok {
			require.Greater(t, fenced.FencingToken(), last, "kept, to be compared")
		}
		require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
		require.ErrorIs(t, l.Err(), relock.ErrLost, "until the next Lock")
		kit.Lock(t, kit.Background, l)
		require.NoError(t, l.Err())
		kit.Unlock(t, kit.Background, l)
		nothing(l)
	})
}

// A section whose hold was lost may go on for a while. Code that it calls gets no new hold, which
// would look as if nothing had happened: ErrLost until the owner has unlocked.
func TestOwnerUnlocksALostHoldFirst(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		ss := k.sessions(t)
		outer, nested := k.of(ss, "lock"), k.of(ss, "lock")
		ctx := ss[0].NewContext(kit.Background)
		kit.Lock(t, ctx, outer)
		k.lose(t, ss, "lock", outer)
		for _, l := range []relock.Locker{outer, nested, relock.NewGroup(nested, ss[0].Mutex("z"))} {
			require.ErrorIs(t, l.Lock(ctx), relock.ErrLost)
			ok, err := l.TryLock(ctx)
			require.False(t, ok)
			require.ErrorContains(t, err, "unlock the lost hold before locking again")
			require.ErrorIs(t, relock.Do(ctx, l, func(context.Context) error { return errOwn }), relock.ErrLost)
		}
		other := ss[0].NewContext(kit.Background) // is not affected
		kit.Lock(t, other, nested)
		kit.Unlock(t, other, nested)
		require.ErrorIs(t, outer.Unlock(ctx), relock.ErrLost)
		kit.Lock(t, ctx, nested)
		kit.Unlock(t, ctx, nested)
	})
}
