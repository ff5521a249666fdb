package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/stretchr/testify/require"
)

// A storm of short calls of several sessions while paths are switched all the time: exclusion by a
// read-modify-write, and nothing is left in Redis, much sooner than a lease.
func TestStormAcrossSwitchesKeepsExclusionAndLeavesNothing(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	var ss []*relock.Session
	for range 3 {
		ss = append(ss, kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(10*time.Second)))
	}
	t.Cleanup(p.Cut)
	var value [4]int
	var count [4]atomic.Int64
	var inside [4]atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var overlaps, lost atomic.Int64
	for i := range 24 {
		k := i % 4
		m := ss[i%3].Mutex(fmt.Sprint("s", k))
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(kit.Background, time.Duration(1+n%40*20)*time.Millisecond)
				h, err := m.Acquire(ctx)
				cancel()
				if err != nil {
					continue
				}
				if inside[k].Add(1) != 1 {
					overlaps.Add(1)
				}
				v := value[k]
				time.Sleep(time.Millisecond)
				value[k] = v + 1
				count[k].Add(1)
				inside[k].Add(-1)
				if err := h.Unlock(kit.Background); errors.Is(err, relock.ErrLost) {
					lost.Add(1)
				}
			}
		})
	}
	for range 4 {
		p.Hold(true)
		time.Sleep(2200 * time.Millisecond)
		p.Hold(false)
		time.Sleep(1300 * time.Millisecond)
		p.Forget()
		time.Sleep(2200 * time.Millisecond)
		p.Cut()
		time.Sleep(800 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	t.Log(value, lost.Load())
	require.Zero(t, overlaps.Load())
	for k := range value {
		require.EqualValues(t, count[k].Load(), value[k])
	}
	freed(t, server, "s0", "s1", "s2", "s3")
	require.Zero(t, lost.Load(), "holds were lost")
}

// Shutdown while paths are switched, with holds, waiters and kept leases: it returns once all have
// ended.
func TestShutdownAcrossASwitch(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	c := kit.NewClient(t, p, patient)
	s := kit.SessionOn(t, c, relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	kept := s.Mutex("kept", relock.WithKeep(time.Hour))
	for range 3 {
		goesOn(t, kept)
	}
	held := s.Mutex("held")
	kit.Lock(t, kit.Background, held)
	waits := kit.Async(func() error { return s.Mutex("held").Lock(kit.Background) })
	kit.Queued(t, s, "held", 1)
	p.Forget()
	ctx, cancel := context.WithTimeout(kit.Background, 8*time.Second)
	defer cancel()
	down := kit.Async(func() error { return s.Shutdown(ctx) })
	require.ErrorIs(t, kit.Receive(t, waits, "the waiter"), relock.ErrClosed)
	time.Sleep(3 * time.Second)
	require.NoError(t, held.Err())
	kit.Unlock(t, kit.Background, held)
	err := kit.Receive(t, down, "shutdown")
	freed(t, server, "held", "kept")
	require.NoError(t, err)
}
