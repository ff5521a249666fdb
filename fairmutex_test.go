package relock_test

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
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// waiting waits until n calls of Lock are in the queue of a FairMutex.
func waiting(t testing.TB, s *relock.Session, name string, n int) {
	t.Helper()
	redistest.Eventually(t, soon, fmt.Sprintf("%d waiters for %s", n, name), func() bool {
		state, err := s.Inspect(background, name)
		return err == nil && state.Waiters == n
	})
}

// nothingOf waits until nothing of a lock is left in Redis.
func nothingOf(t testing.TB, client rueidis.Client, name string) {
	t.Helper()
	goneQuickly(t, client, name)
	goneQuickly(t, client, "relock_queue:{"+name+"}")
}

// hammerFair is hammer for any kind of lock.
func hammerFair[L relock.Locker](client rueidis.Client, locks []L, rounds int) error {
	return together(len(locks), func(i int) error {
		for range rounds {
			err := relock.Do(background, locks[i], func(ctx context.Context) error {
				return bump(background, client, "count")
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
	shapes := map[string]func(t *testing.T, at addressed) func() *relock.FairMutex{
		"one value": func(t *testing.T, at addressed) func() *relock.FairMutex {
			m := newSession(t, at).FairMutex("lock")
			return func() *relock.FairMutex { return m }
		},
		"a value each": func(t *testing.T, at addressed) func() *relock.FairMutex {
			s := newSession(t, at)
			return func() *relock.FairMutex { return s.FairMutex("lock") }
		},
		"a session each": func(t *testing.T, at addressed) func() *relock.FairMutex {
			return func() *relock.FairMutex { return newSession(t, at).FairMutex("lock") }
		},
		"a session each on one client": func(t *testing.T, at addressed) func() *relock.FairMutex {
			client := newClient(t, at)
			return func() *relock.FairMutex { return sessionOn(t, client).FairMutex("lock") }
		},
	}
	for shape, with := range shapes {
		t.Run(shape, func(t *testing.T) {
			onBoth(t, func(t *testing.T, at addressed) {
				client, value := newClient(t, at), with(t, at)
				var locks []*relock.FairMutex
				for range goroutines {
					locks = append(locks, value())
				}
				require.NoError(t, hammerFair(client, locks, rounds))
				require.Equal(t, goroutines*rounds, counted(t, client, "count"))
				require.Equal(t, []string{"count"}, keys(t, client))
			})
		})
	}
}

func init() {
	roles["fair hammer"] = func(args []string) { // address, goroutines, rounds
		s, client := childSession(args[0])
		goroutines, _ := strconv.Atoi(args[1])
		rounds, _ := strconv.Atoi(args[2])
		var locks []*relock.FairMutex
		for range goroutines {
			locks = append(locks, s.FairMutex("lock"))
		}
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin)
		childCheck(hammerFair(client, locks, rounds))
		childCheck(s.Close(background))
		fmt.Println("done")
	}
}

func TestFairMutexExcludesProcesses(t *testing.T) {
	t.Parallel()
	const processes, goroutines, rounds = 3, 4, 50
	server := redistest.Start(t)
	client := newClient(t, server)
	atOnce(t, processes, "fair hammer", server.Addr(), strconv.Itoa(goroutines), strconv.Itoa(rounds))
	require.Equal(t, processes*goroutines*rounds, counted(t, client, "count"))
	require.Equal(t, []string{"count"}, keys(t, client))
}

func TestFairMutexTryLock(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
		m := s.FairMutex("lock")
		require.True(t, tryLock(t, background, m), "free")
		require.False(t, tryLock(t, background, m), "held through this value")
		require.False(t, tryLock(t, background, s.FairMutex("lock")), "held in this session")
		require.False(t, tryLock(t, background, other.FairMutex("lock")), "held in another session")
		require.NoError(t, m.Err(), "failing attempts change nothing")
		require.Equal(t, []string{"lock"}, keys(t, client), "an attempt does not queue")
		unlock(t, background, m)
		require.True(t, tryLock(t, background, other.FairMutex("lock")), "free again")
	})
}

// Somebody waits, and the lock has become free unnoticed: an attempt gives it to whom
// it is due.
func TestFairMutexTryLockDoesNotOvertake(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
		held, waiter := s.FairMutex("lock"), other.FairMutex("lock")
		lock(t, background, held)
		got := async(func() error { return waiter.Lock(background) })
		waiting(t, s, "lock", 1)
		require.NoError(t, client.Do(background, client.B().Del().Key("lock").Build()).Error())
		require.False(t, tryLock(t, background, newSession(t, at).FairMutex("lock")))
		require.NoError(t, receive(t, got, "the waiter to get in"))
		unlock(t, background, waiter)
	})
}

func TestInspectShowsTheWaiters(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other, client := newSession(t, at), newSession(t, at), newClient(t, at)
		held := s.FairMutex("lock")
		lock(t, background, held)
		var got []<-chan error
		for i := range 5 {
			m := map[bool]*relock.Session{false: s, true: other}[i%2 == 0].FairMutex("lock")
			got = append(got, async(func() error {
				return relock.Do(background, m, func(context.Context) error { return nil })
			}))
			waiting(t, s, "lock", i+1)
		}
		state, err := other.Inspect(background, "lock")
		require.NoError(t, err)
		require.Equal(t, relock.Exclusive, state.Mode)
		require.Len(t, state.Holders, 1)
		require.Equal(t, s.ID(), state.Holders[0].Session)
		unlock(t, background, held)
		for _, c := range got {
			require.NoError(t, receive(t, c, "a waiter to get in"))
		}
		state, err = other.Inspect(background, "lock")
		require.NoError(t, err)
		require.Equal(t, relock.State{}, state)
		nothingOf(t, client, "lock")
	})
}

func TestFairMutexRefusesBadNamesOptionsAndContexts(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := newSession(t, m)
	ended, cancel := context.WithCancelCause(background)
	cancel(errStop)
	closed := newSession(t, m)
	require.NoError(t, closed.Close(background))
	for what, c := range map[string]struct {
		m    *relock.FairMutex
		ctx  context.Context
		want error
	}{
		"no name":      {s.FairMutex(""), background, relock.ErrName},
		"brace":        {s.FairMutex("a{b"), background, relock.ErrName},
		"long":         {s.FairMutex(strings.Repeat("x", 1025)), background, relock.ErrName},
		"short lease":  {s.FairMutex("a", relock.WithLease(time.Millisecond)), background, relock.ErrOption},
		"no max hold":  {s.FairMutex("a", relock.WithMaxHold(0)), background, relock.ErrOption},
		"ended":        {s.FairMutex("a"), ended, errStop},
		"ended, owner": {s.FairMutex("a"), s.NewContext(ended), context.Canceled},
		"closed":       {closed.FairMutex("a"), background, relock.ErrClosed},
	} {
		require.ErrorIs(t, c.m.Lock(c.ctx), c.want, what)
		ok, err := c.m.TryLock(c.ctx)
		require.False(t, ok, what)
		require.ErrorIs(t, err, c.want, what)
		require.Error(t, c.m.Unlock(background), what)
		require.Error(t, c.m.Err(), what)
		require.True(t, isClosed(c.m.Done()), what)
	}
	var zero relock.FairMutex
	require.Error(t, zero.Lock(background))
	require.Error(t, zero.Lock(s.NewContext(background)))
	require.Error(t, zero.Unlock(background))
	require.ErrorIs(t, zero.Err(), relock.ErrNotHeld)
	require.True(t, isClosed(zero.Done()))
	require.Zero(t, zero.FencingToken())
	_, certain := zero.Deadline()
	require.False(t, certain)
	require.Empty(t, m.Keys())
}

func TestFairMutexOfAKeyOfAnotherType(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, client := newSession(t, at, relock.WithWatchdog(500*time.Millisecond)), newClient(t, at)
		for _, key := range []string{"lock", "relock_queue:{lock}", "relock_fence:{lock}"} {
			require.NoError(t, client.Do(background, client.B().Hset().Key("lock").FieldValue().FieldValue("x:1", "1").Build()).Error())
			m := s.FairMutex("lock")
			got := async(func() error { return m.Lock(background) })
			waiting(t, s, "lock", 1)
			require.NoError(t, client.Do(background, client.B().Eval().
				Script("redis.call('del', KEYS[1], KEYS[2]) return redis.call('rpush', KEYS[2], 'text')").
				Numkeys(2).Key("lock").Key(key).Build()).Error())
			require.ErrorContains(t, receive(t, got, "an error, not a wait"), "WRONGTYPE", key)
			require.ErrorContains(t, m.Lock(background), "WRONGTYPE", key)
			_, err := m.TryLock(background)
			require.ErrorContains(t, err, "WRONGTYPE", key)
			require.NoError(t, client.Do(background, client.B().Flushall().Build()).Error())
		}
	})
}
