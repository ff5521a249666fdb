package relock_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hammer locks, bumps a counter and unlocks, in as many goroutines as there are
// locks, several times each.
func hammer(client rueidis.Client, locks []*relock.Mutex, rounds int, counter string) error {
	return together(len(locks), func(i int) error {
		for range rounds {
			if err := locks[i].Lock(background); err != nil {
				return err
			}
			if err := bump(background, client, counter); err != nil {
				return err
			}
			if err := locks[i].Unlock(background); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestGoroutinesExcludeEachOther(t *testing.T) {
	const goroutines, rounds = 8, 12
	for what, tenure := range map[string]time.Duration{"passing": time.Hour, "default": 10 * time.Millisecond, "asking": 0} {
		shapes := map[string]func(t *testing.T, at addressed) func() *relock.Mutex{
			"one value": func(t *testing.T, at addressed) func() *relock.Mutex {
				m := newSession(t, at, relock.WithTenure(tenure)).Mutex("lock")
				return func() *relock.Mutex { return m }
			},
			"a value each": func(t *testing.T, at addressed) func() *relock.Mutex {
				s := newSession(t, at, relock.WithTenure(tenure))
				return func() *relock.Mutex { return s.Mutex("lock") }
			},
			"a session each": func(t *testing.T, at addressed) func() *relock.Mutex {
				return func() *relock.Mutex { return newSession(t, at, relock.WithTenure(tenure)).Mutex("lock") }
			},
			"a session each on one client": func(t *testing.T, at addressed) func() *relock.Mutex {
				client := newClient(t, at)
				return func() *relock.Mutex { return sessionOn(t, client, relock.WithTenure(tenure)).Mutex("lock") }
			},
		}
		for shape, with := range shapes {
			t.Run(what+"/"+shape, func(t *testing.T) {
				onBoth(t, func(t *testing.T, at addressed) {
					client, value := newClient(t, at), with(t, at)
					var locks []*relock.Mutex
					for range goroutines {
						locks = append(locks, value())
					}
					require.NoError(t, hammer(client, locks, rounds, "count"))
					require.Equal(t, goroutines*rounds, counted(t, client, "count"))
					require.Equal(t, []string{"count"}, keys(t, client))
				})
			})
		}
	}
}

func TestNamesDoNotExcludeEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		lock(t, background, s.Mutex("a"))
		lock(t, background, s.Mutex("b"))
		lock(t, background, newSession(t, at).Mutex("{a}"))
	})
}

func init() {
	roles["hammer"] = func(args []string) { // address, goroutines, rounds
		s, client := childSession(args[0])
		goroutines, _ := strconv.Atoi(args[1])
		rounds, _ := strconv.Atoi(args[2])
		var locks []*relock.Mutex
		for range goroutines {
			locks = append(locks, s.Mutex("lock"))
		}
		var line string
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin, &line)
		childCheck(hammer(client, locks, rounds, "count"))
		childCheck(s.Close(background))
		fmt.Println("done")
	}
}

func TestProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	const processes, goroutines, rounds = 3, 4, 50
	server := redistest.Start(t)
	client := newClient(t, server)
	atOnce(t, processes, "hammer", server.Addr(), strconv.Itoa(goroutines), strconv.Itoa(rounds))
	require.Equal(t, processes*goroutines*rounds, counted(t, client, "count"))
	require.Equal(t, []string{"count"}, keys(t, client))
}

func TestTryLock(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s, other := newSession(t, at), newSession(t, at)
		m := s.Mutex("lock")
		require.True(t, tryLock(t, background, m), "free")
		require.False(t, tryLock(t, background, m), "held through this value")
		require.False(t, tryLock(t, background, s.Mutex("lock")), "held in this session")
		require.False(t, tryLock(t, background, other.Mutex("lock")), "held in another session")
		require.NoError(t, m.Err(), "failing attempts change nothing")
		unlock(t, background, m)
		require.True(t, tryLock(t, background, other.Mutex("lock")), "free again")
	})
}

// Somebody asks Redis in vain, so nobody in the session holds anything; an attempt
// in the same session neither waits for that call nor overtakes it.
func TestTryLockIsFalseWhileAGoroutineContends(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, s := newSession(t, server).Mutex("lock"), newSession(t, server)
	lock(t, background, holder)
	waiter, behind := s.Mutex("lock"), s.Mutex("lock")
	first := async(func() error { return waiter.Lock(background) })
	awaited(t, newClient(t, server), "lock")
	second := async(func() error { return behind.Lock(background) })
	queued(t, s, "lock", 1)
	before := server.CommandStats()["evalsha"]
	for range 100 {
		require.False(t, tryLock(t, background, s.Mutex("lock")))
	}
	require.Less(t, server.CommandStats()["evalsha"]-before, int64(50), "attempts must not ask Redis")
	unlock(t, background, holder)
	require.NoError(t, receive(t, first, "the waiter to get in"))
	unlock(t, background, waiter)
	require.NoError(t, receive(t, second, "the second waiter to get in"))
	unlock(t, background, behind)
}
