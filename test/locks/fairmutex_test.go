package locks_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

// nothingOf waits until nothing of a lock is left in Redis.
func nothingOf(t testing.TB, client rueidis.Client, name string) {
	t.Helper()
	kit.GoneQuickly(t, client, name)
	kit.GoneQuickly(t, client, "relock_queue:{"+name+"}")
}

// hammerFair is hammer for any kind of lock.
func hammerFair[L relock.Locker](client rueidis.Client, locks []L, rounds int) error {
	return kit.Together(len(locks), func(i int) error {
		for range rounds {
			err := relock.Do(kit.Background, locks[i], func(ctx context.Context) error {
				return kit.Bump(kit.Background, client, "count")
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func TestFairMutexExcludesGoroutines(t *testing.T) {
	const goroutines, rounds = 8, 20
	shapes := map[string]func(t *testing.T, at kit.Addressed) func() *relock.FairMutex{
		"one value": func(t *testing.T, at kit.Addressed) func() *relock.FairMutex {
			m := kit.NewSession(t, at).FairMutex("lock")
			return func() *relock.FairMutex { return m }
		},
		"a value each": func(t *testing.T, at kit.Addressed) func() *relock.FairMutex {
			s := kit.NewSession(t, at)
			return func() *relock.FairMutex { return s.FairMutex("lock") }
		},
		"a session each": func(t *testing.T, at kit.Addressed) func() *relock.FairMutex {
			return func() *relock.FairMutex { return kit.NewSession(t, at).FairMutex("lock") }
		},
		"a session each on one client": func(t *testing.T, at kit.Addressed) func() *relock.FairMutex {
			client := kit.NewClient(t, at)
			return func() *relock.FairMutex { return kit.SessionOn(t, client).FairMutex("lock") }
		},
	}
	for shape, with := range shapes {
		t.Run(shape, func(t *testing.T) {
			kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
				client, value := kit.NewClient(t, at), with(t, at)
				var locks []*relock.FairMutex
				for range goroutines {
					locks = append(locks, value())
				}
				require.NoError(t, hammerFair(client, locks, rounds))
				require.Equal(t, goroutines*rounds, kit.Counted(t, client, "count"))
				require.Equal(t, []string{"count"}, kit.Keys(t, client))
			})
		})
	}
}

func init() {
	kit.Roles["fair hammer"] = func(args []string) { // address, goroutines, rounds
		s, client := kit.ChildSession(args[0])
		goroutines, _ := strconv.Atoi(args[1])
		rounds, _ := strconv.Atoi(args[2])
		var locks []*relock.FairMutex
		for range goroutines {
			locks = append(locks, s.FairMutex("lock"))
		}
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin)
		kit.ChildCheck(hammerFair(client, locks, rounds))
		kit.ChildCheck(s.Close(kit.Background))
		fmt.Println("done")
	}
}

func TestFairMutexExcludesProcesses(t *testing.T) {
	t.Parallel()
	const processes, goroutines, rounds = 3, 4, 50
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	kit.AtOnce(t, processes, "fair hammer", server.Addr(), strconv.Itoa(goroutines), strconv.Itoa(rounds))
	require.Equal(t, processes*goroutines*rounds, kit.Counted(t, client, "count"))
	require.Equal(t, []string{"count"}, kit.Keys(t, client))
}

func TestFairMutexTryLock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		m := s.FairMutex("lock")
		require.True(t, kit.TryLock(t, kit.Background, m), "free")
		require.False(t, kit.TryLock(t, kit.Background, m), "held through this value")
		require.False(t, kit.TryLock(t, kit.Background, s.FairMutex("lock")), "held in this session")
		require.False(t, kit.TryLock(t, kit.Background, other.FairMutex("lock")), "held in another session")
		require.NoError(t, m.Err(), "failing attempts change nothing")
		require.Equal(t, []string{"lock"}, kit.Keys(t, client), "an attempt does not queue")
		kit.Unlock(t, kit.Background, m)
		require.True(t, kit.TryLock(t, kit.Background, other.FairMutex("lock")), "free again")
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
		nothingOf(t, client, "lock")
	})
}

func TestFairMutexRefusesBadNamesOptionsAndContexts(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m)
	ended, cancel := context.WithCancelCause(kit.Background)
	cancel(kit.ErrStop)
	closed := kit.NewSession(t, m)
	require.NoError(t, closed.Close(kit.Background))
	for what, c := range map[string]struct {
		m    *relock.FairMutex
		ctx  context.Context
		want error
	}{
		"no name":      {s.FairMutex(""), kit.Background, relock.ErrName},
		"brace":        {s.FairMutex("a{b"), kit.Background, relock.ErrName},
		"long":         {s.FairMutex(strings.Repeat("x", 1025)), kit.Background, relock.ErrName},
		"short lease":  {s.FairMutex("a", relock.WithFixedLease(time.Millisecond)), kit.Background, relock.ErrOption},
		"no max hold":  {s.FairMutex("a", relock.WithMaxHold(0)), kit.Background, relock.ErrOption},
		"ended":        {s.FairMutex("a"), ended, kit.ErrStop},
		"ended, owner": {s.FairMutex("a"), s.NewContext(ended), context.Canceled},
		"closed":       {closed.FairMutex("a"), kit.Background, relock.ErrClosed},
	} {
		require.ErrorIs(t, c.m.Lock(c.ctx), c.want, what)
		ok, err := c.m.TryLock(c.ctx)
		require.False(t, ok, what)
		require.ErrorIs(t, err, c.want, what)
		require.Error(t, c.m.Unlock(kit.Background), what)
		require.Error(t, c.m.Err(), what)
		require.True(t, kit.IsClosed(c.m.Done()), what)
	}
	var zero relock.FairMutex
	require.Error(t, zero.Lock(kit.Background))
	require.Error(t, zero.Lock(s.NewContext(kit.Background)))
	require.Error(t, zero.Unlock(kit.Background))
	require.ErrorIs(t, zero.Err(), relock.ErrNotHeld)
	require.True(t, kit.IsClosed(zero.Done()))
	require.Zero(t, zero.FencingToken())
	_, certain := zero.Deadline()
	require.False(t, certain)
	require.Empty(t, m.Keys())
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
