package virtual_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

var fair, redlock = &lockTypes[1], &lockTypes[6]

// A waiter whose process stands still keeps the lock that it was given from the others for a lease
// of the lock, not of the session.
func TestFrozenWaiterOfAShortLeaseCostsThatLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short := relock.WithLease(2 * time.Second)
		w := newWorld(t, fair)
		holder, frozen, next := w.process(), w.process(), w.process()
		held := holder.held(short)
		var got []chan error
		for _, p := range []*process{frozen, next} {
			c := make(chan error, 1)
			got = append(got, c)
			go func() { c <- p.lock(short).Lock(background) }()
			time.Sleep(100 * time.Millisecond)
		}
		heal := frozen.partition()
		start := time.Now()
		require.NoError(t, held.Unlock(background))
		require.NoError(t, <-got[1])
		const rollCall = 50 * time.Millisecond // after a lapsed claim, for those who live
		require.InDelta(t, 2*time.Second, time.Since(start), float64(rollCall+20*time.Millisecond))
		require.Empty(t, got[0])
		heal()
	})
}

// A waiter with a short lease is given the lock by a message alone: it looks so often that its
// claim is certain when that arrives.
func TestShortLeaseIsClaimedWithoutARoundTrip(t *testing.T) {
	alone(t, fair, func(t *testing.T, w *world) {
		holder, next := w.process(), w.process()
		l := next.lock(relock.WithLease(time.Second))
		for i := range 20 {
			held := holder.held() // whose lease would be no reason to look
			got := begin(background, l)
			time.Sleep(7*time.Second + time.Duration(i)*70*time.Millisecond)
			require.NoError(t, held.Unlock(background))
			heal := memredis.Of(w.redis[0], next.s[0]).Cut(memredis.Up) // what it has heard must do
			synctest.Wait()
			require.Len(t, got, 1)
			require.NoError(t, <-got)
			heal()
			require.NoError(t, l.Unlock(background))
		}
	})
}
