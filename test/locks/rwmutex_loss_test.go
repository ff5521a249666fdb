package locks_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

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
