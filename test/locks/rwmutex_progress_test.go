package locks_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An owner that reads may read again, whatever waits: it would wait for itself.
func TestRWMutexReentryPassesWaitingWriters(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at, relock.WithTenure(0)), kit.NewSession(t, at)
		owner := s.NewContext(kit.Background)
		rw := s.RWMutex("lock")
		kit.Lock(t, owner, rw.RLocker())
		for _, writer := range []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")} {
			ctx, cancel := context.WithCancel(kit.Background)
			defer cancel()
			got := kit.Async(func() error { return writer.Lock(ctx) })
			redistest.Eventually(t, kit.Soon, "the writer to stop new readers", func() bool {
				return !tryRead(t, other.RWMutex("lock"))
			})
			require.False(t, tryRead(t, s.RWMutex("lock")), "new readers of the same session, too")
			for range 3 {
				kit.Lock(t, owner, s.RWMutex("lock").RLocker())
				require.True(t, kit.TryLock(t, owner, rw.RLocker()))
			}
			for range 6 {
				kit.Unlock(t, owner, rw.RLocker())
			}
			cancel()
			require.ErrorIs(t, kit.Receive(t, got, "the writer to leave"), context.Canceled)
			redistest.Eventually(t, kit.Quickly, "new readers to get in", func() bool {
				return tryRead(t, other.RWMutex("lock")) && tryRead(t, s.RWMutex("lock"))
			})
		}
		kit.Unlock(t, owner, rw.RLocker())
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// tryRead takes the read side for a moment, and reports whether it could.
func tryRead(t testing.TB, rw *relock.RWMutex) bool {
	t.Helper()
	ok := kit.TryLock(t, kit.Background, rw.RLocker())
	if ok {
		kit.Unlock(t, kit.Background, rw.RLocker())
	}
	return ok
}
