package locks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// waiting waits until n calls of Lock are in the queue of a FairMutex.
func waiting(t testing.TB, s *relock.Session, name string, n int) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, fmt.Sprintf("%d waiters for %s", n, name), func() bool {
		state, err := s.Inspect(kit.Background, name)
		return err == nil && state.Waiters == n
	})
}

// Somebody waits, and the lock has become free unnoticed: an attempt gives it to whom
// it is due.
func TestFairMutexTryLockDoesNotOvertake(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		held, waiter := s.FairMutex("lock"), other.FairMutex("lock")
		kit.Lock(t, kit.Background, held)
		got := kit.Async(func() error { return waiter.Lock(kit.Background) })
		waiting(t, s, "lock", 1)
		require.NoError(t, client.Do(kit.Background, client.B().Del().Key("lock").Build()).Error())
		require.False(t, kit.TryLock(t, kit.Background, kit.NewSession(t, at).FairMutex("lock")))
		require.NoError(t, kit.Receive(t, got, "the waiter to get in"))
		kit.Unlock(t, kit.Background, waiter)
	})
}

func TestInspectShowsTheWaiters(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		held := s.FairMutex("lock")
		kit.Lock(t, kit.Background, held)
		var got []<-chan error
		for i := range 5 {
			m := map[bool]*relock.Session{false: s, true: other}[i%2 == 0].FairMutex("lock")
			got = append(got, kit.Async(func() error {
				return relock.Do(kit.Background, m, func(context.Context) error { return nil })
			}))
			waiting(t, s, "lock", i+1)
		}
		state, err := other.Inspect(kit.Background, "lock")
		require.NoError(t, err)
		require.Equal(t, relock.Exclusive, state.Mode)
		require.Len(t, state.Holders, 1)
		require.Equal(t, s.ID(), state.Holders[0].Session)
		kit.Unlock(t, kit.Background, held)
		for _, c := range got {
			require.NoError(t, kit.Receive(t, c, "a waiter to get in"))
		}
		state, err = other.Inspect(kit.Background, "lock")
		require.NoError(t, err)
		require.Equal(t, relock.State{}, state)
		mustBeQuiet(t, client, "lock")
	})
}

func TestFairMutexOfAKeyOfAnotherType(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, client := kit.NewSession(t, at, relock.WithLease(500*time.Millisecond)), kit.NewClient(t, at)
		for _, key := range []string{"lock", "relock_queue:{lock}", "relock_fence:{lock}"} {
			require.NoError(t, client.Do(kit.Background, client.B().Hset().Key("lock").FieldValue().FieldValue("4f1b9a52-8d9e-8c55-9d0c-000000000001:1", "1").Build()).Error())
			m := s.FairMutex("lock")
			got := kit.Async(func() error { return m.Lock(kit.Background) })
			waiting(t, s, "lock", 1)
			require.NoError(t, client.Do(kit.Background, client.B().Eval().
				Script("redis.call('del', KEYS[1], KEYS[2]) return redis.call('rpush', KEYS[2], 'text')").
				Numkeys(2).Key("lock").Key(key).Build()).Error())
			require.ErrorContains(t, kit.Receive(t, got, "an error, not a wait"), "WRONGTYPE", key)
			require.ErrorContains(t, m.Lock(kit.Background), "WRONGTYPE", key)
			_, err := m.TryLock(kit.Background)
			require.ErrorContains(t, err, "WRONGTYPE", key)
			require.NoError(t, client.Do(kit.Background, client.B().Flushall().Build()).Error())
		}
	})
}
