package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A waiter whose message is lost with its connection looks again when the connection
// is back, and by a timer in any case. All processes want the lock all the time, so
// whenever it is free for long, somebody has missed that.
func TestNoWakeUpIsLostWithASubscription(t *testing.T) {
	t.Parallel()
	const backing = 3 * time.Second * 3 / 2
	s := redistest.Start(t)
	var workers []*workerProc
	for i, w := range []worker{
		{goroutines: 1, lease: 30 * time.Second},
		{goroutines: 1, lease: 30 * time.Second},
		{goroutines: 3, lease: 30 * time.Second, tenure: time.Millisecond},
	} {
		workers = append(workers, startWorker(t, fmt.Sprint("worker ", i), s, "it", w))
	}
	var killed int64
	for end := time.Now().Add(kit.Stress(t, 3*time.Second)); time.Now().Before(end); {
		time.Sleep(rand.N(300 * time.Millisecond))
		reply, err := s.Do("CLIENT", "KILL", "TYPE", "PUBSUB")
		require.NoError(t, err)
		killed += reply.(int64)
	}
	var all []certainHold
	for _, w := range workers {
		w.stop(t)
		r := w.report(t)
		require.Zero(t, r.lost)
		require.Greater(t, len(r.holds), 20, "holds of %s", w.name)
		all = append(all, r.holds...)
	}
	checkSweep(t, all)
	gaps := idle(all)
	over := 0
	for _, g := range gaps {
		if g > 500*time.Millisecond {
			over++
		}
	}
	t.Logf("%d holds, %d subscription connections killed, longest without a holder %v, %d times more than 500ms",
		len(all), killed, gaps[:min(5, len(gaps))], over)
	require.Greater(t, killed, int64(6))
	require.Greater(t, len(all), 500)
	require.Less(t, gaps[0], backing)
}
