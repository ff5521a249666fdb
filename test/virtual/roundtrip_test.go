package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A session of short leases, further away than those, waits for a lock with a long one. Its looks have time to be
// answered: else nobody tells it that it was granted the lock, or has lost its place.
func TestFarWaiterOfLongLeaseInASessionOfShortOnes(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		holder, far := w.process(), w.process(relock.WithLease(50*time.Millisecond))
		far.delay(40 * time.Millisecond)
		held := holder.held()
		far.networks(func(n *memredis.Process) { n.LoseMessage("granted ") })
		ctx, cancel := context.WithTimeout(background, 10*time.Minute)
		defer cancel()
		got := make(chan error, 1)
		start := time.Now()
		go func() { got <- far.lock(relock.WithLease(lease)).Lock(ctx) }()
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(background))
		require.NoError(t, <-got)
		require.LessOrEqual(t, time.Since(start), 3*claim)
	})
}

// What a call says that gives up: Redis answers, and the lock is taken.
func TestTimeoutInASessionOfShortLeasesSaysTaken(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		holder, p := w.process(), w.process(relock.WithLease(50*time.Millisecond))
		holder.held()
		ctx, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		err := p.lock(relock.WithLease(lease)).Lock(ctx)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "no answer")
	})
}

// A lease of 1 s at a round trip of 400 ms: there is time to renew it, and to look.
func TestLeaseOfTwoRoundTripsIsRenewed(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		w.process()
		p := w.process(relock.WithLease(time.Second))
		p.delay(200 * time.Millisecond)
		l := p.lock()
		require.NoError(t, l.Lock(background))
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Err())
	})
}

func TestWaiterOfTwoRoundTripsGetsTheLock(t *testing.T) {
	eachExclusive(t, func(t *testing.T, w *world) {
		holder, far := w.process(), w.process(relock.WithLease(time.Second))
		far.delay(200 * time.Millisecond)
		held := holder.held()
		far.networks(func(n *memredis.Process) { n.LoseMessage("granted ") })
		ctx, cancel := context.WithTimeout(background, 10*time.Minute)
		defer cancel()
		got := make(chan error, 1)
		start := time.Now()
		go func() { got <- far.lock().Lock(ctx) }()
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(background))
		require.NoError(t, <-got)
		require.LessOrEqual(t, time.Since(start), 3*claim)
	})
}
