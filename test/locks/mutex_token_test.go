package locks_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// pushTokens takes the lock in turns and appends its token to a list in Redis. The
// list has the order in which the holders had the lock.
func pushTokens(client rueidis.Client, locks []*relock.Mutex, rounds int) error {
	return kit.Together(len(locks), func(i int) error {
		for range rounds {
			if err := locks[i].Lock(kit.Background); err != nil {
				return err
			}
			b := client.B().Rpush().Key("tokens").Element(fmt.Sprint(locks[i].FencingToken())).Build()
			if err := client.Do(kit.Background, b).Error(); err != nil {
				return err
			}
			if err := locks[i].Unlock(kit.Background); err != nil {
				return err
			}
		}
		return nil
	})
}

// wantIncreasing checks the list of tokens, and that it has n.
func wantIncreasing(t *testing.T, client rueidis.Client, n int) {
	t.Helper()
	tokens, err := client.Do(kit.Background, client.B().Lrange().Key("tokens").Start(0).Stop(-1).Build()).AsIntSlice()
	require.NoError(t, err)
	require.Len(t, tokens, n)
	last := int64(0)
	for i, token := range tokens {
		if token <= last {
			t.Fatalf("token %d is %d, after %d", i, token, last)
		}
		last = token
	}
}

func init() {
	kit.Roles["tokens"] = func(args []string) { // address, tenure, goroutines, rounds
		tenure, err := time.ParseDuration(args[1])
		kit.ChildCheck(err)
		s, client := kit.ChildSession(args[0], relock.WithTenure(tenure))
		goroutines, err := strconv.Atoi(args[2])
		kit.ChildCheck(err)
		rounds, err := strconv.Atoi(args[3])
		kit.ChildCheck(err)
		var line string
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin, &line)
		kit.ChildCheck(pushTokens(client, values(s, goroutines), rounds))
		fmt.Println("done")
	}
}

func TestTokensIncreaseOverSessionsAndProcesses(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 150
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	tenures := []string{"0s", "1ms", "10ms"}
	var children []*redistest.Proc
	for _, tenure := range tenures {
		c := redistest.Child(t, "tokens", server.Addr(), tenure, strconv.Itoa(goroutines), strconv.Itoa(rounds))
		_, err := c.Expect("ready", kit.Soon)
		require.NoError(t, err)
		children = append(children, c)
	}
	var locks []*relock.Mutex
	for range goroutines {
		locks = append(locks, kit.NewSession(t, server).Mutex("lock"))
	}
	for _, c := range children {
		require.NoError(t, c.Send("go"))
	}
	require.NoError(t, pushTokens(client, locks, rounds))
	for _, c := range children {
		_, err := c.Expect("done", kit.Soon)
		require.NoError(t, err)
	}
	wantIncreasing(t, client, (len(children)+1)*goroutines*rounds)
}

func TestTokensIncreaseWithoutPause(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		m, last := kit.NewSession(t, at).Mutex("lock"), int64(0)
		for range 1000 {
			kit.Lock(t, kit.Background, m)
			require.Greater(t, m.FencingToken(), last)
			last = m.FencingToken()
			kit.Unlock(t, kit.Background, m)
		}
	})
}

// The token of a lock that was granted to a waiter is remembered for a minute as well.
func TestTokenOfAGrantIsRememberedAsLong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	ask := func(args ...string) int64 {
		reply, err := server.Do(args...)
		require.NoError(t, err)
		return reply.(int64)
	}
	first, next := s.FairMutex("lock"), s.FairMutex("lock")
	kit.Lock(t, kit.Background, first)
	token := first.FencingToken()
	got := kit.Async(func() error { return next.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "the next one to queue", func() bool {
		return ask("ZCARD", "relock_queue:{lock}") == 1
	})
	require.Equal(t, int64(1), ask("PEXPIRE", "relock_fence:{lock}", "9000"))
	kit.Unlock(t, kit.Background, first)
	require.NoError(t, kit.Receive(t, got, "the next one to get in"))
	require.Greater(t, next.FencingToken(), token)
	require.Greater(t, ask("PTTL", "relock_fence:{lock}"), time.Minute.Milliseconds()/2)
	kit.Unlock(t, kit.Background, next)
}

// Tokens that go around in the process are of the hold, whatever value it came by.
func TestConcurrentHoldersSeeTheirOwnTokens(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s := kit.NewSession(t, at)
		var mu sync.Mutex
		seen := make(map[int64]bool)
		last := int64(0)
		require.NoError(t, kit.Together(8, func(int) error {
			m := s.Mutex("lock")
			for range 50 {
				if err := m.Lock(kit.Background); err != nil {
					return err
				}
				mu.Lock()
				token := m.FencingToken()
				ok := token > last && !seen[token]
				seen[token], last = true, token
				mu.Unlock()
				if !ok {
					return fmt.Errorf("token %d is not new", token)
				}
				if err := m.Unlock(kit.Background); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}
