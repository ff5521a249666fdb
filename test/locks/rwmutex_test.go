package locks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tryRead takes the read side for a moment, and reports whether it could.
func tryRead(t testing.TB, rw *relock.RWMutex) bool {
	t.Helper()
	ok := kit.TryLock(t, kit.Background, rw.RLocker())
	if ok {
		kit.Unlock(t, kit.Background, rw.RLocker())
	}
	return ok
}

// readLeases returns the keys of the leases of readers.
func readLeases(t testing.TB, client rueidis.Client) []string {
	t.Helper()
	keys, err := client.Do(kit.Background, client.B().Keys().Pattern("{lock}:*:rwlock_timeout:*").Build()).AsStrSlice()
	require.NoError(t, err)
	return keys
}

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
		}
		for range 20 { // many attempts at once neither wait for each other nor stop each other
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
		mustBeQuiet(t, kit.NewClient(t, at), "lock", s, other)
	})
}

// Readers of a process share one hold in Redis: those of a tenure ask once, others each time.
func TestRWMutexReadersOfAProcessShareOneHold(t *testing.T) {
	t.Parallel()
	const readers = 100
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	for _, tenure := range []time.Duration{time.Hour, 0} {
		s := kit.NewSession(t, server, relock.WithTenure(tenure))
		one := s.RWMutex("lock")
		for _, l := range []relock.Locker{one, one.RLocker()} { // the server knows the scripts
			kit.Lock(t, kit.Background, l)
			kit.Unlock(t, kit.Background, l)
		}
		kit.HoldersOf(t, s, "lock")
		for _, shared := range []bool{false, true} {
			locks := make([]relock.Locker, readers)
			for i := range locks {
				locks[i] = s.RWMutex("lock").RLocker()
				if shared {
					locks[i] = one.RLocker()
				}
			}
			cost := trafficOf(server, func() {
				for _, l := range locks {
					kit.Lock(t, kit.Background, l)
				}
				require.Len(t, kit.HoldersOf(t, s, "lock"), 1)
				for _, l := range locks[1:] {
					kit.Unlock(t, kit.Background, l)
				}
				require.True(t, kit.Exists(t, client, "lock"))
				kit.Unlock(t, kit.Background, locks[0])
			})
			require.EqualValues(t, 1, cost.acquired)
			if tenure > 0 {
				require.LessOrEqual(t, cost.scripts, int64(3), "one to acquire, one to release, one to inspect")
			} else {
				require.GreaterOrEqual(t, cost.scripts, int64(readers))
			}
			mustBeQuiet(t, client, "lock", s)
		}
	}
}

// A writer reads as well, and goes on writing when it stops that.
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
			for _, handle := range []*relock.RWMutex{rw, s.RWMutex("lock")} {
				require.ErrorIs(t, handle.Lock(owner), relock.ErrUpgrade)
				ok, err := handle.TryLock(owner)
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
