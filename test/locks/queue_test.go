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

// The module interop shows the same with Redisson itself.

const redissonsThread = "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47"

// Those who waited for a thousand locks of Redisson's took half a core of Redis, with 38,000 looks a second.
func TestWaitingForManyLocksOfRedissonStaysCheap(t *testing.T) {
	eachOf(t, func(t *testing.T, k *kind) {
		const locks = 1000
		server := redistest.Start(t)
		client, s := kit.NewClient(t, server), kit.NewSession(t, server)
		ctx, cancel := context.WithCancel(kit.Background)
		var waits []<-chan error
		for i := range locks {
			name := fmt.Sprint("lock", i)
			order(t, client, "HSET", name, redissonsThread, "1")
			order(t, client, "PEXPIRE", name, "60000")
			waits = append(waits, kit.Async(func() error { return k.on(s, name).Lock(ctx) }))
		}
		redistest.Eventually(t, kit.Soon, "all to wait", func() bool { return len(kit.Keys(t, client)) >= 2*locks })
		looks := func() int64 { return server.CommandStats()["hrandfield"] }
		start, n := time.Now(), looks()
		time.Sleep(3 * time.Second)
		last := looks()
		require.NotEqual(t, n, last)
		require.Less(t, float64(last-n)/time.Since(start).Seconds(), 2000.0)
		cancel()
		for _, w := range waits {
			require.ErrorIs(t, kit.Receive(t, w, "a waiter to leave"), context.Canceled)
		}
	}, func(k *kind) bool { return k.name == "Mutex" || k.name == "writer" })
}

// When its hand-off window is over, a process with more goroutines that wait queues again behind
// others. A hand-over is the script that releases, and the one by which the winner has queued.
func TestProcessQueuesAgainAfterTheHandOffWindow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := kit.NewSession(t, server, relock.WithTenure(0)), kit.NewSession(t, server, relock.WithTenure(0))
	kit.WarmUp(t, s)
	kit.WarmUp(t, other)
	for range 20 {
		first, theirs, next := s.Mutex("lock"), other.Mutex("lock"), []*relock.Mutex{s.Mutex("lock"), s.Mutex("lock")}
		kit.Lock(t, kit.Background, first)
		got := make(chan *relock.Mutex, 3)
		lock := func(m *relock.Mutex) {
			if m.Lock(kit.Background) == nil {
				got <- m
			}
		}
		for i, m := range next {
			go lock(m)
			kit.Queued(t, s, "lock", i+1)
		}
		before := server.CommandStats()
		go lock(theirs)
		waiting(t, s, "lock", 1)
		kit.Unlock(t, kit.Background, first)
		require.Same(t, theirs, kit.Receive(t, got, "the other session to get in"))
		waiting(t, s, "lock", 1)
		kit.Unlock(t, kit.Background, theirs)
		for range next {
			kit.Unlock(t, kit.Background, kit.Receive(t, got, "the next of this session to get in"))
		}
		after := server.CommandStats()
		for command, n := range map[string]int64{
			"hdel": 4, "hset": 3, // four releases, of which three have granted the lock
			"zadd": 2, // both sessions queue, and the last finds the lock free
		} {
			require.Equal(t, n, after[command]-before[command], command)
		}
	}
	mustBeQuiet(t, kit.NewClient(t, server), "lock")
}

// A user without the right to PUBSUB cannot learn whose session is there. If that counted as nobody's,
// releases would leave the lock free, and waiters would find it at their next look. Now and then a release leaves
// the lock to Redisson.
func TestWaitersCountAsThereWithoutPubSub(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		const handOvers = 60
		server := redistest.Start(t)
		_, err := server.Do("ACL", "SETUSER", "default", "-pubsub")
		require.NoError(t, err)
		a, b := kit.NewSession(t, server), kit.NewSession(t, server)
		holds, waits, left := k.Holder(a), k.Of(b), 0
		kit.Lock(t, kit.Background, holds)
		for range handOvers {
			locked := kit.Async(func() error { return waits.Lock(kit.Background) })
			waiting(t, b, "lock", 1)
			kit.Unlock(t, kit.Background, holds)
			state, err := b.Inspect(kit.Background, "lock")
			require.NoError(t, err)
			if state.Mode == relock.Unlocked {
				left++
			}
			require.Less(t, left, handOvers/4, "releases that left the lock free")
			require.NoError(t, kit.Receive(t, locked, "the hand-over"))
			holds, waits = waits, holds
		}
	})
}
