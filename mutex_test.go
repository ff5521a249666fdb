package relock_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hammer locks, bumps a counter and unlocks, in as many goroutines as there are
// locks, several times each.
func hammer(client rueidis.Client, locks []*relock.Mutex, rounds int, counter string) error {
	return kit.Together(len(locks), func(i int) error {
		for range rounds {
			if err := locks[i].Lock(kit.Background); err != nil {
				return err
			}
			if err := kit.Bump(kit.Background, client, counter); err != nil {
				return err
			}
			if err := locks[i].Unlock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestGoroutinesExcludeEachOther(t *testing.T) {
	const goroutines, rounds = 8, 12
	for what, tenure := range map[string]time.Duration{"passing": time.Hour, "default": 10 * time.Millisecond, "asking": 0} {
		shapes := map[string]func(t *testing.T, at kit.Addressed) func() *relock.Mutex{
			"one value": func(t *testing.T, at kit.Addressed) func() *relock.Mutex {
				m := kit.NewSession(t, at, relock.WithTenure(tenure)).Mutex("lock")
				return func() *relock.Mutex { return m }
			},
			"a value each": func(t *testing.T, at kit.Addressed) func() *relock.Mutex {
				s := kit.NewSession(t, at, relock.WithTenure(tenure))
				return func() *relock.Mutex { return s.Mutex("lock") }
			},
			"a session each": func(t *testing.T, at kit.Addressed) func() *relock.Mutex {
				return func() *relock.Mutex { return kit.NewSession(t, at, relock.WithTenure(tenure)).Mutex("lock") }
			},
			"a session each on one client": func(t *testing.T, at kit.Addressed) func() *relock.Mutex {
				client := kit.NewClient(t, at)
				return func() *relock.Mutex { return kit.SessionOn(t, client, relock.WithTenure(tenure)).Mutex("lock") }
			},
		}
		for shape, with := range shapes {
			t.Run(what+"/"+shape, func(t *testing.T) {
				kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
					client, value := kit.NewClient(t, at), with(t, at)
					var locks []*relock.Mutex
					for range goroutines {
						locks = append(locks, value())
					}
					require.NoError(t, hammer(client, locks, rounds, "count"))
					require.Equal(t, goroutines*rounds, kit.Counted(t, client, "count"))
					require.Equal(t, []string{"count"}, kit.Keys(t, client))
				})
			})
		}
	}
}

func TestNamesDoNotExcludeEachOther(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		kit.Lock(t, kit.Background, s.Mutex("a"))
		kit.Lock(t, kit.Background, s.Mutex("b"))
		kit.Lock(t, kit.Background, kit.NewSession(t, at).Mutex("{a}"))
	})
}

func init() {
	kit.Roles["hammer"] = func(args []string) { // address, goroutines, rounds
		s, client := kit.ChildSession(args[0])
		goroutines, _ := strconv.Atoi(args[1])
		rounds, _ := strconv.Atoi(args[2])
		var locks []*relock.Mutex
		for range goroutines {
			locks = append(locks, s.Mutex("lock"))
		}
		var line string
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin, &line)
		kit.ChildCheck(hammer(client, locks, rounds, "count"))
		kit.ChildCheck(s.Close(kit.Background))
		fmt.Println("done")
	}
}

func TestProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	const processes, goroutines, rounds = 3, 4, 50
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	kit.AtOnce(t, processes, "hammer", server.Addr(), strconv.Itoa(goroutines), strconv.Itoa(rounds))
	require.Equal(t, processes*goroutines*rounds, kit.Counted(t, client, "count"))
	require.Equal(t, []string{"count"}, kit.Keys(t, client))
}

func TestTryLock(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		m := s.Mutex("lock")
		require.True(t, kit.TryLock(t, kit.Background, m), "free")
		require.False(t, kit.TryLock(t, kit.Background, m), "held through this value")
		require.False(t, kit.TryLock(t, kit.Background, s.Mutex("lock")), "held in this session")
		require.False(t, kit.TryLock(t, kit.Background, other.Mutex("lock")), "held in another session")
		require.NoError(t, m.Err(), "failing attempts change nothing")
		kit.Unlock(t, kit.Background, m)
		require.True(t, kit.TryLock(t, kit.Background, other.Mutex("lock")), "free again")
	})
}

// Somebody asks Redis in vain, so nobody in the session holds anything; an attempt
// in the same session neither waits for that call nor overtakes it.
func TestTryLockIsFalseWhileAGoroutineContends(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, s := kit.NewSession(t, server).Mutex("lock"), kit.NewSession(t, server)
	kit.Lock(t, kit.Background, holder)
	waiter, behind := s.Mutex("lock"), s.Mutex("lock")
	first := kit.Async(func() error { return waiter.Lock(kit.Background) })
	kit.Awaited(t, kit.NewClient(t, server), "lock")
	second := kit.Async(func() error { return behind.Lock(kit.Background) })
	kit.Queued(t, s, "lock", 1)
	before := server.CommandStats()["evalsha"]
	for range 100 {
		require.False(t, kit.TryLock(t, kit.Background, s.Mutex("lock")))
	}
	require.Less(t, server.CommandStats()["evalsha"]-before, int64(50), "attempts must not ask Redis")
	kit.Unlock(t, kit.Background, holder)
	require.NoError(t, kit.Receive(t, first, "the waiter to get in"))
	kit.Unlock(t, kit.Background, waiter)
	require.NoError(t, kit.Receive(t, second, "the second waiter to get in"))
	kit.Unlock(t, kit.Background, behind)
}
