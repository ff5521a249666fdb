package locks_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The other way round: it stops reading and goes on writing.
func TestRWMutexWriterMayStopReading(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		for range 3 {
			kit.Lock(t, owner, rw)
			require.True(t, kit.TryLock(t, owner, rw.RLocker()))
			kit.Unlock(t, owner, rw.RLocker())
			require.ErrorIs(t, rw.RUnlock(owner), relock.ErrNotHeld)
			require.NoError(t, rw.Err())
			for _, s := range []*relock.Session{s, other} {
				require.False(t, tryRead(t, s.RWMutex("lock")))
				require.False(t, kit.TryLock(t, kit.Background, s.RWMutex("lock")))
			}
			kit.Unlock(t, owner, rw)
			require.True(t, tryRead(t, other.RWMutex("lock")))
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// A reader that asks to write is refused at once, also while others read and write.
func TestRWMutexUpgradeIsRefused(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		rw, owner := s.RWMutex("lock"), s.NewContext(kit.Background)
		kit.Lock(t, owner, rw.RLocker())
		refused := func() {
			t.Helper()
			for _, value := range []*relock.RWMutex{rw, s.RWMutex("lock")} {
				require.ErrorIs(t, value.Lock(owner), relock.ErrUpgrade)
				ok, err := value.TryLock(owner)
				require.False(t, ok)
				require.ErrorIs(t, err, relock.ErrUpgrade)
			}
			require.NoError(t, rw.RLocker().Err())
		}
		refused()
		kit.Lock(t, kit.Background, other.RWMutex("lock").RLocker())
		refused()
		ctx, cancel := context.WithCancel(kit.Background)
		writer := kit.Async(func() error { return other.RWMutex("lock").Lock(ctx) })
		redistest.Eventually(t, kit.Soon, "a writer to wait", func() bool { return !tryRead(t, s.RWMutex("lock")) })
		refused()
		cancel()
		require.ErrorIs(t, kit.Receive(t, writer, "the writer to leave"), context.Canceled)
		kit.Unlock(t, owner, rw.RLocker())
		require.False(t, kit.TryLock(t, owner, rw), "the other one reads")
	})
}
