package locks_test

import (
	"context"
	"fmt"
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

// Those who waited for a thousand locks of Redisson's took half a core of Redis, with 38,000 looks a second.
func TestWaitingForManyLocksOfRedissonStaysCheap(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]func(*relock.Session, string) relock.Locker{
		"Mutex":  func(s *relock.Session, name string) relock.Locker { return s.Mutex(name) },
		"writer": func(s *relock.Session, name string) relock.Locker { return s.RWMutex(name) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const locks = 1000
			server := redistest.Start(t)
			client, s := kit.NewClient(t, server), kit.NewSession(t, server)
			ctx, cancel := context.WithCancel(kit.Background)
			var waiting sync.WaitGroup
			for i := range locks {
				name := fmt.Sprint("lock", i)
				order(t, client, "HSET", name, redissonsWaiter, "1")
				order(t, client, "PEXPIRE", name, "60000")
				waiting.Go(func() { _ = lock(s, name).Lock(ctx) })
			}
			queued := func() bool { return len(kit.Keys(t, client)) >= 2*locks }
			redistest.Eventually(t, kit.Soon, "all to wait", queued)
			looks := func() (n int64, cpu float64) {
				for _, of := range []string{"used_cpu_user", "used_cpu_sys"} {
					used, err := strconv.ParseFloat(server.Info("cpu")[of], 64)
					require.NoError(t, err)
					cpu += used
				}
				return server.CommandStats()["hrandfield"], cpu
			}
			start := time.Now()
			n, cpu := looks()
			time.Sleep(3 * time.Second)
			last, used := looks()
			took := time.Since(start).Seconds()
			t.Logf("%.0f looks a second, %.1f %% of a core", float64(last-n)/took, 100*(used-cpu)/took)
			require.NotEqual(t, n, last)
			require.Less(t, float64(last-n)/took, 2000.0)
			cancel()
			waiting.Wait()
		})
	}
}
