package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// A rwHold is one lock of a side, and the context to unlock it under.
type rwHold struct {
	relock.Locker
	ctx context.Context
}

// holdSide takes a side in one session: as a writer; or as readers through one value and
// through several, some with an owner, all of them on one hold in Redis.
func holdSide(t testing.TB, s *relock.Session, who side) (holds []rwHold) {
	t.Helper()
	if who == writing {
		holds = []rwHold{{s.RWMutex("lock"), s.NewContext(kit.Background)}}
	} else {
		shared, owner := s.RWMutex("lock").RLocker(), s.NewContext(kit.Background)
		holds = []rwHold{
			{shared, kit.Background}, {shared, kit.Background}, {s.RWMutex("lock").RLocker(), kit.Background},
			{s.RWMutex("lock").RLocker(), owner}, {s.RWMutex("lock").RLocker(), owner},
		}
	}
	for _, h := range holds {
		kit.Lock(t, h.ctx, h)
	}
	return holds
}

// allLost checks that each hold was lost, and that each unlock says so once.
func allLost(t testing.TB, holds []rwHold) {
	t.Helper()
	for _, h := range holds {
		kit.Receive(t, h.Done(), "a holder to be told")
	}
	for _, h := range holds {
		require.ErrorIs(t, h.Err(), relock.ErrLost)
	}
	for _, h := range holds {
		require.ErrorIs(t, h.Unlock(h.ctx), relock.ErrLost)
	}
	for _, h := range holds {
		require.ErrorIs(t, h.Unlock(h.ctx), relock.ErrNotHeld)
	}
}

// The watchdog would notice in ten seconds.
func TestRWMutexForceUnlockNotifiesEveryHolderAtOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, holder, next side) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s, other := kit.NewSession(t, at), kit.NewSession(t, at)
			for _, by := range []*relock.Session{other, s} {
				holds := holdSide(t, s, holder)
				if holder == reading {
					holds = append(holds, holdSide(t, other, reading)...)
				}
				m := next.of(other.RWMutex("lock"))
				got := kit.Async(func() error { return m.Lock(kit.Background) })
				was, err := by.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.True(t, was)
				require.NoError(t, kit.Receive(t, got, "who waits to get in at once"))
				start := time.Now()
				allLost(t, holds)
				require.Less(t, time.Since(start), kit.Quickly)
				require.NoError(t, m.Err(), "the next one's hold stays")
				require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
				kit.Unlock(t, kit.Background, m)
				was, err = by.ForceUnlock(kit.Background, "lock")
				require.NoError(t, err)
				require.False(t, was)
			}
			mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
		})
	})
}

// What the session knows of its holds, it tells from both sides.
func TestRWMutexInspect(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		const lease = 30 * time.Second
		s, other := kit.NewSession(t, at, relock.WithLease(lease)), kit.NewSession(t, at)
		check := func(mode relock.Mode, sessions ...*relock.Session) {
			t.Helper()
			state := inspect(t, other, "lock")
			require.Equal(t, mode, state.Mode)
			require.Len(t, state.Holders, len(sessions))
			for _, want := range sessions {
				found := 0
				for _, h := range state.Holders {
					require.Equal(t, 1, h.Count)
					require.Contains(t, h.ID, h.Session+":")
					if h.Session == want.ID() {
						found++
					}
				}
				require.Positive(t, found)
			}
			require.Zero(t, state.Waiters)
			if mode != relock.Unlocked {
				require.Greater(t, state.TTL, lease/2)
				require.LessOrEqual(t, state.TTL, lease)
			}
		}
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		check(relock.Unlocked)
		kit.Lock(t, owner, rw)
		check(relock.Exclusive, s)
		kit.Lock(t, owner, rw)
		check(relock.Exclusive, s)
		kit.Lock(t, owner, rw.RLocker())
		check(relock.Exclusive, s, s)
		kit.Unlock(t, owner, rw)
		kit.Unlock(t, owner, rw)
		check(relock.Shared, s)
		kit.Lock(t, kit.Background, s.RWMutex("lock").RLocker())
		check(relock.Shared, s)
		r := other.RWMutex("lock").RLocker()
		kit.Lock(t, kit.Background, r)
		check(relock.Shared, s, other)
		kit.Unlock(t, owner, rw.RLocker())
		kit.Unlock(t, kit.Background, r)
		check(relock.Shared, s)
	})
}
