package relock_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// pushTokens takes the lock in turns and appends its token to a list in Redis. The
// list has the order in which the holders had the lock.
func pushTokens(client rueidis.Client, locks []*relock.Mutex, rounds int) error {
	return together(len(locks), func(i int) error {
		for range rounds {
			if err := locks[i].Lock(background); err != nil {
				return err
			}
			b := client.B().Rpush().Key("tokens").Element(fmt.Sprint(locks[i].FencingToken())).Build()
			if err := client.Do(background, b).Error(); err != nil {
				return err
			}
			if err := locks[i].Unlock(background); err != nil {
				return err
			}
		}
		return nil
	})
}

// wantIncreasing checks the list of tokens, and that it has n.
func wantIncreasing(t *testing.T, client rueidis.Client, n int) {
	t.Helper()
	tokens, err := client.Do(background, client.B().Lrange().Key("tokens").Start(0).Stop(-1).Build()).AsIntSlice()
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
	roles["tokens"] = func(args []string) { // address, tenure, goroutines, rounds
		tenure, err := time.ParseDuration(args[1])
		childCheck(err)
		s, client := childSession(args[0], relock.WithTenure(tenure))
		goroutines, err := strconv.Atoi(args[2])
		childCheck(err)
		rounds, err := strconv.Atoi(args[3])
		childCheck(err)
		var line string
		fmt.Println("ready")
		fmt.Fscanln(os.Stdin, &line)
		childCheck(pushTokens(client, values(s, goroutines), rounds))
		fmt.Println("done")
	}
}

func TestTokensIncreaseOverSessionsAndProcesses(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 4, 150
	server := redistest.Start(t)
	client := newClient(t, server)
	tenures := []string{"0s", "1ms", "10ms"}
	var children []*redistest.Proc
	for _, tenure := range tenures {
		c := redistest.Child(t, "tokens", server.Addr(), tenure, strconv.Itoa(goroutines), strconv.Itoa(rounds))
		_, err := c.Expect("ready", soon)
		require.NoError(t, err)
		children = append(children, c)
	}
	var locks []*relock.Mutex
	for range goroutines {
		locks = append(locks, newSession(t, server).Mutex("lock"))
	}
	for _, c := range children {
		require.NoError(t, c.Send("go"))
	}
	require.NoError(t, pushTokens(client, locks, rounds))
	for _, c := range children {
		_, err := c.Expect("done", soon)
		require.NoError(t, err)
	}
	wantIncreasing(t, client, (len(children)+1)*goroutines*rounds)
}

func TestTokensIncreaseWithoutPause(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		m, last := newSession(t, at).Mutex("lock"), int64(0)
		for range 1000 {
			lock(t, background, m)
			require.Greater(t, m.FencingToken(), last)
			last = m.FencingToken()
			unlock(t, background, m)
		}
	})
}

// Nothing in Redis remembers the last token, and yet the next one is larger, also
// than those that a holder who does not know yet goes on passing around.
func TestTokensIncreaseOverALossOfAllData(t *testing.T) {
	loss := map[string]func(t *testing.T, server *redistest.Server){
		"flush": func(t *testing.T, server *redistest.Server) {
			_, err := server.Do("FLUSHALL")
			require.NoError(t, err)
		},
		"restart": func(t *testing.T, server *redistest.Server) {
			require.NoError(t, server.Restart())
			left, err := server.Do("DBSIZE")
			require.NoError(t, err)
			require.Zero(t, left)
		},
	}
	for what, lose := range loss {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newSession(t, server, relock.WithTenure(time.Hour))
			other := newSession(t, server)
			last := int64(0)
			for range 3 {
				m := s.Mutex("lock")
				for range 100 { // issued faster than the clock goes
					lock(t, background, m)
					unlock(t, background, m)
				}
				lock(t, background, m)
				require.Greater(t, m.FencingToken(), last)
				lose(t, server)

				next := s.Mutex("lock")
				got := async(func() error { return next.Lock(background) })
				queued(t, s, "lock", 1)
				successor := other.Mutex("lock")
				lock(t, background, successor)
				last = successor.FencingToken()
				require.Greater(t, last, m.FencingToken())
				unlock(t, background, m) // passes on what is not there any more
				require.NoError(t, receive(t, got, "the next one to get in"))
				require.Greater(t, last, next.FencingToken())
				require.ErrorIs(t, next.Unlock(background), relock.ErrLost)
				unlock(t, background, successor)
			}
		})
	}
}

// A lock that was not acquired for a minute leaves no key behind, and its tokens go on.
func TestTokensNeedNoKeyForEver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m, client := newSession(t, server).Mutex("lock"), newClient(t, server)
	lock(t, background, m)
	token := m.FencingToken()
	unlock(t, background, m)
	ttl, err := client.Do(background, client.B().Pttl().Key("relock_fence:{lock}").Build()).AsInt64()
	require.NoError(t, err)
	require.Greater(t, ttl, time.Minute.Milliseconds()/2)
	require.LessOrEqual(t, ttl, time.Minute.Milliseconds()+4) // it may be a little more than 3 ms ahead of the clock
	require.NoError(t, client.Do(background, client.B().Del().Key("relock_fence:{lock}").Build()).Error())
	lock(t, background, m)
	require.Greater(t, m.FencingToken(), token)
	require.Less(t, m.FencingToken(), int64(1)<<53, "exact in JSON and Lua")
}

// A FairMutex that is passed on counts the last token up, and then that is the one that
// is remembered for a minute.
func TestTokenOfAPassedFairMutexIsRememberedAsLong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	ask := func(args ...string) int64 {
		reply, err := server.Do(args...)
		require.NoError(t, err)
		return reply.(int64)
	}
	first, next := s.FairMutex("lock"), s.FairMutex("lock")
	lock(t, background, first)
	token := first.FencingToken()
	got := async(func() error { return next.Lock(background) })
	redistest.Eventually(t, soon, "the next one to queue", func() bool {
		return ask("ZCARD", "relock_queue:{lock}") == 1
	})
	require.Equal(t, int64(1), ask("PEXPIRE", "relock_fence:{lock}", "9000"))
	unlock(t, background, first)
	require.NoError(t, receive(t, got, "the next one to get in"))
	require.Equal(t, token+1, next.FencingToken())
	require.Greater(t, ask("PTTL", "relock_fence:{lock}"), time.Minute.Milliseconds()/2)
	unlock(t, background, next)
}

// Tokens that go around in the process are of the hold, whatever value it came by.
func TestConcurrentHoldersSeeTheirOwnTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, at addressed) {
		s := newSession(t, at)
		var mu sync.Mutex
		seen := make(map[int64]bool)
		last := int64(0)
		require.NoError(t, together(8, func(int) error {
			m := s.Mutex("lock")
			for range 50 {
				if err := m.Lock(background); err != nil {
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
				if err := m.Unlock(background); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}
