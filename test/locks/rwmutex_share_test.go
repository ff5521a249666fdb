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

// warmUpRW has the server know the scripts of RWMutex.
func warmUpRW(t testing.TB, s *relock.Session) {
	t.Helper()
	rw := s.RWMutex("warm-up")
	for _, l := range []relock.Locker{rw, rw.RLocker()} {
		kit.Lock(t, kit.Background, l)
		kit.Unlock(t, kit.Background, l)
	}
	kit.HoldersOf(t, s, "warm-up")
}

func TestRWMutexReadersOfAProcessShareOneHold(t *testing.T) {
	t.Parallel()
	const readers = 100
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	s := kit.NewSession(t, server, relock.WithTenure(time.Hour))
	warmUpRW(t, s)
	one := s.RWMutex("lock")
	for _, shared := range []bool{false, true} {
		locks := make([]relock.Locker, readers)
		for i := range locks {
			locks[i] = s.RWMutex("lock").RLocker()
			if shared {
				locks[i] = one.RLocker()
			}
		}
		cost := trafficOf(server, func() {
			require.NoError(t, kit.Together(readers, func(i int) error { return locks[i].Lock(kit.Background) }))
			require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
			for _, l := range locks[1:] {
				kit.Unlock(t, kit.Background, l)
			}
			require.True(t, kit.Exists(t, client, "lock"))
			kit.Unlock(t, kit.Background, locks[0])
		})
		require.EqualValues(t, 1, cost.acquired)
		require.LessOrEqual(t, cost.scripts, int64(3), "one to acquire, one to release, one to inspect")
		mustBeQuiet(t, client, "lock", s)
	}
}

// Without a tenure each reader is told by Redis that it may enter, but they still have
// one hold in Redis.
func TestRWMutexWithoutATenureAcquiresEachTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server, relock.WithTenure(0))
	warmUpRW(t, s)
	first := s.RWMutex("lock")
	kit.Lock(t, kit.Background, first.RLocker())
	cost := trafficOf(server, func() {
		for range 10 {
			rw := s.RWMutex("lock")
			kit.Lock(t, kit.Background, rw.RLocker())
			kit.Unlock(t, kit.Background, rw.RLocker())
		}
	})
	require.GreaterOrEqual(t, cost.scripts, int64(10))
	require.Zero(t, cost.acquired)
	kit.Unlock(t, kit.Background, first.RLocker())
}

// What a value says of its hold must be true for each goroutine that reads through it:
// Done closes when the last of them has unlocked.
func TestRWMutexSharedByGoroutines(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		rw := s.RWMutex("lock")
		r := rw.RLocker()
		require.True(t, kit.IsClosed(r.Done()))
		require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
		kit.Lock(t, kit.Background, r)
		kit.Lock(t, kit.Background, r)
		done := r.Done()
		kit.Unlock(t, kit.Background, r)
		require.False(t, kit.IsClosed(done))
		require.NoError(t, r.Err())
		require.ErrorIs(t, rw.Err(), relock.ErrNotHeld, "the other side")
		require.True(t, kit.IsClosed(rw.Done()))
		kit.Lock(t, kit.Background, r)
		kit.Unlock(t, kit.Background, r)
		require.False(t, kit.IsClosed(done))
		kit.Unlock(t, kit.Background, r)
		require.True(t, kit.IsClosed(done))
		require.ErrorIs(t, r.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, r.Unlock(kit.Background), relock.ErrNotHeld)
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s)
	})
}

// Unlocking without an owner, through a value that has both kinds of readers, ends what
// was taken without one.
func TestRWMutexSharedByOwnersAndOthers(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		for _, order := range [][]context.Context{{kit.Background, owner}, {owner, kit.Background}} {
			for _, ctx := range order {
				kit.Lock(t, ctx, rw.RLocker())
			}
			kit.Unlock(t, kit.Background, rw.RLocker())
			require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
			kit.Unlock(t, owner, rw.RLocker())
			require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
			require.ErrorIs(t, rw.RUnlock(kit.Background), relock.ErrNotHeld)
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s)
	})
}
