package locks_test

import (
	"fmt"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

func TestRWMutexTryLock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		for _, a := range []*relock.RWMutex{s.RWMutex("lock"), other.RWMutex("lock")} {
			rw, same := s.RWMutex("lock"), s.RWMutex("lock")
			require.True(t, kit.TryLock(t, kit.Background, rw))
			for _, b := range []*relock.RWMutex{rw, same, a} {
				require.False(t, kit.TryLock(t, kit.Background, b))
				require.False(t, kit.TryLock(t, kit.Background, b.RLocker()))
			}
			kit.Unlock(t, kit.Background, rw)
			require.True(t, kit.TryLock(t, kit.Background, rw.RLocker()))
			for _, b := range []*relock.RWMutex{rw, same, a} {
				require.False(t, kit.TryLock(t, kit.Background, b))
				require.True(t, kit.TryLock(t, kit.Background, b.RLocker()))
			}
			for _, b := range []*relock.RWMutex{rw, same, a, rw} {
				kit.Unlock(t, kit.Background, b.RLocker())
			}
			require.True(t, kit.TryLock(t, kit.Background, a))
			kit.Unlock(t, kit.Background, a)
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// They neither wait for each other nor stop each other.
func TestRWMutexTryRLockOfManyAtOnce(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		for range 20 {
			rw := s.RWMutex("lock")
			require.NoError(t, kit.Together(16, func(int) error {
				if ok, err := rw.TryRLock(kit.Background); !ok || err != nil {
					return fmt.Errorf("%t, %w", ok, err)
				}
				return nil
			}))
			for range 16 {
				kit.Unlock(t, kit.Background, rw.RLocker())
			}
		}
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s)
	})
}
