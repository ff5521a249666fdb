package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
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
	client := newClient(t, server)
	holder, other := newSession(t, server).FairMutex("lock"), newSession(t, server).FairMutex("lock")
	heard := make(chan string, 10)
	ctx, cancel := context.WithCancel(background)
	ready, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		ctx := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { close(ready) })
		_ = client.Receive(ctx, client.B().Subscribe().Channel("redisson_lock__channel:{lock}:"+redissonsWaiter).Build(),
			func(m rueidis.PubSubMessage) { heard <- m.Message })
	}()
	receive(t, ready, "the subscription")
	defer func() { cancel(); receive(t, left, "the end of the subscription") }()

	for name, release := range map[string]func(){
		"unlock": func() { unlock(t, background, holder) },
		"force": func() {
			ok, err := newSession(t, server).ForceUnlock(background, "lock")
			require.NoError(t, err)
			require.True(t, ok)
			require.ErrorIs(t, holder.Unlock(background), relock.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock(t, background, holder)
			order(t, client, "RPUSH", "redisson_lock_queue:{lock}", redissonsWaiter)
			got := async(func() error { return other.Lock(background) })
			redistest.Eventually(t, soon, "a waiter in the queue", func() bool { return exists(t, client, "relock_queue:{lock}") })
			release()
			require.Equal(t, "0", receive(t, heard, "the message to the head of Redisson's queue"))
			// That one does not come, and so it is the next one's turn.
			require.NoError(t, receive(t, got, "the lock, for the waiter that is there"))
			unlock(t, background, other)
			receive(t, heard, "the message of the second release")
			order(t, client, "DEL", "redisson_lock_queue:{lock}")
		})
	}
}

// While it is the turn of Redisson's waiter, no FairMutex takes the lock.
func TestFairMutexLetsTheHeadOfRedissonsQueueGoFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	m := newSession(t, server).FairMutex("lock")
	order(t, client, "RPUSH", "redisson_lock_queue:{lock}", redissonsWaiter)
	order(t, client, "SET", "relock_yield:{lock}", redissonsWaiter, "PX", "60000")
	require.False(t, tryLock(t, background, m))
	order(t, client, "LPOP", "redisson_lock_queue:{lock}") // it has come
	require.True(t, tryLock(t, background, m))
	unlock(t, background, m)
}

// The holder of an RFairLock tells nobody of its release when Redisson's queue is empty. So
// the waiter looks every few milliseconds: without that these looks would take half a minute.
func TestFairMutexLooksOftenWhileRedissonHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server)
	s := newSession(t, server, relock.WithWatchdog(time.Minute))
	order(t, client, "HSET", "lock", redissonsWaiter, "1")
	order(t, client, "PEXPIRE", "lock", "60000")
	m := s.FairMutex("lock")
	got := async(func() error { return m.Lock(background) })
	redistest.Eventually(t, soon, "a waiter in the queue", func() bool { return exists(t, client, "relock_queue:{lock}") })
	before := server.CommandStats()["zscore"]
	redistest.Eventually(t, soon, "looks at the queue", func() bool { return server.CommandStats()["zscore"]-before >= 20 })
	order(t, client, "DEL", "lock")
	require.NoError(t, receive(t, got, "the lock"))
	unlock(t, background, m)
}
