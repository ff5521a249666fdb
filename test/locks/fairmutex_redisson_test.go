package locks_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The module interop shows the same with Redisson itself.

const redissonsWaiter = "7b1c5a52-5a0e-4c57-9b55-0d8f8d1a6c11:47"

// Redisson's fair waiters hear of releases on a channel of their own only. They slept
// until the lease would have ended.
func TestFairUnlockWakesTheHeadOfRedissonsQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	holder, other := kit.NewSession(t, server).FairMutex("lock"), kit.NewSession(t, server).FairMutex("lock")
	heard := make(chan string, 10)
	ctx, cancel := context.WithCancel(kit.Background)
	ready, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		ctx := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { close(ready) })
		_ = client.Receive(ctx, client.B().Subscribe().Channel("redisson_lock__channel:{lock}:"+redissonsWaiter).Build(),
			func(m rueidis.PubSubMessage) { heard <- m.Message })
	}()
	kit.Receive(t, ready, "the subscription")
	defer func() { cancel(); kit.Receive(t, left, "the end of the subscription") }()

	for name, release := range map[string]func(){
		"unlock": func() { kit.Unlock(t, kit.Background, holder) },
		"force": func() {
			ok, err := kit.NewSession(t, server).ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			require.True(t, ok)
			require.ErrorIs(t, holder.Unlock(kit.Background), relock.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Lock(t, kit.Background, holder)
			order(t, client, "RPUSH", "redisson_lock_queue:{lock}", redissonsWaiter)
			got := kit.Async(func() error { return other.Lock(kit.Background) })
			redistest.Eventually(t, kit.Soon, "a waiter in the queue", func() bool { return kit.Exists(t, client, "relock_queue:{lock}") })
			release()
			require.Equal(t, "0", kit.Receive(t, heard, "the message to the head of Redisson's queue"))
			// That one does not come, and so it is the next one's turn.
			require.NoError(t, kit.Receive(t, got, "the lock, for the waiter that is there"))
			kit.Unlock(t, kit.Background, other)
			kit.Receive(t, heard, "the message of the second release")
			order(t, client, "DEL", "redisson_lock_queue:{lock}", "relock_yield:{lock}")
		})
	}
}

// While it is the turn of Redisson's waiter, no FairMutex takes the lock.
func TestFairMutexServesTheHeadOfRedissonsQueueGoFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	m := kit.NewSession(t, server).FairMutex("lock")
	order(t, client, "RPUSH", "redisson_lock_queue:{lock}", redissonsWaiter)
	redistest.Eventually(t, kit.Soon, "the lock to be refused", func() bool {
		until := strconv.FormatInt(time.Now().Add(900*time.Millisecond).UnixMilli(), 10)
		order(t, client, "SET", "relock_yield:{lock}", until+" "+redissonsWaiter)
		if !kit.TryLock(t, kit.Background, m) {
			return true
		}
		kit.Unlock(t, kit.Background, m) // a slow machine
		return false
	})
	order(t, client, "LPOP", "redisson_lock_queue:{lock}") // it has come
	require.True(t, kit.TryLock(t, kit.Background, m))
	kit.Unlock(t, kit.Background, m)
}

// The holder of an RFairLock tells nobody of its release when Redisson's queue is empty. So
// the waiter looks every few milliseconds: without that these looks would take half a minute.
func TestFairMutexProbesOftenWhileRedissonHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := kit.NewClient(t, server)
	s := kit.NewSession(t, server, relock.WithLease(time.Minute))
	order(t, client, "HSET", "lock", redissonsWaiter, "1")
	order(t, client, "PEXPIRE", "lock", "60000")
	m := s.FairMutex("lock")
	got := kit.Async(func() error { return m.Lock(kit.Background) })
	redistest.Eventually(t, kit.Soon, "a waiter in the queue", func() bool { return kit.Exists(t, client, "relock_queue:{lock}") })
	before := server.CommandStats()["zscore"]
	redistest.Eventually(t, kit.Soon, "looks at the queue", func() bool { return server.CommandStats()["zscore"]-before >= 20 })
	order(t, client, "DEL", "lock")
	require.NoError(t, kit.Receive(t, got, "the lock"))
	kit.Unlock(t, kit.Background, m)
}
