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
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// X1-11. As X1-1, but it is the session's own connection to the new primary that breaks, after the old one has woken up. The session
// goes back to the shared one, to the old primary, although each new connection leads to the new one.
func TestX1BrokenOwnConnectionDoesNotLeadBackToAnOldPrimary(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	p := redistest.NewProxy(t, primary.Addr())
	s := kit.SessionOn(t, kit.NewClient(t, p, patient), relock.WithLease(10*time.Second))
	t.Cleanup(p.Cut)
	m := s.Mutex("free")
	goesOn(t, m)
	failover(t, p, primary, replicas[0], oldPrimaries["hangs"])
	goesOn(t, m)
	theirs := kit.NewSession(t, replicas[0]).Mutex("free")
	require.NoError(t, primary.Thaw())
	time.Sleep(3 * time.Second)
	do(t, replicas[0], "CLIENT", "KILL", "TYPE", "normal")
	overlaps := 0
	for start := time.Now(); time.Since(start) < 6*time.Second; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(kit.Background, 5*time.Second)
		if theirs.Lock(ctx) == nil {
			if ok, _ := m.TryLock(ctx); ok {
				if m.Err() == nil && theirs.Err() == nil {
					overlaps++
				}
				_ = m.Unlock(ctx)
			}
			_ = theirs.Unlock(ctx)
		}
		cancel()
	}
	require.Zero(t, overlaps)
}

// X1-12. No call returns more than 100 ms after its context, while Redis, the shared connection or all of them hang.
func TestX1CallsReturnWithTheirContext(t *testing.T) {
	t.Parallel()
	server, p := kit.Proxied(t)
	s := kit.SessionOn(t, kit.NewClient(t, p, patient))
	t.Cleanup(p.Cut)
	goesOn(t, s.Mutex("a"))
	kit.Lock(t, kit.Background, s.Mutex("held"))
	var late atomic.Int64
	over := make(chan struct{})
	defer close(over)
	go stalls(t, over)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				d := time.Duration(20+n%10*30) * time.Millisecond
				ctx, cancel := context.WithTimeout(kit.Background, d)
				at, _ := ctx.Deadline()
				name := fmt.Sprint("n", i%5)
				switch i % 5 {
				case 0:
					m := s.Mutex(name)
					if m.Lock(ctx) == nil {
						_ = m.Unlock(kit.Background)
						cancel()
						continue
					}
				case 1:
					m := s.FairMutex(name)
					if m.Lock(ctx) == nil {
						_ = m.Unlock(kit.Background)
						cancel()
						continue
					}
				case 2:
					m := s.RWMutex(name)
					if m.RLock(ctx) == nil {
						_ = m.RUnlock(kit.Background)
						cancel()
						continue
					}
				case 3:
					_, _ = s.Inspect(ctx, name)
				case 4:
					_, _ = s.ForceUnlock(ctx, name)
				}
				if l := int64(time.Since(at)); l > late.Load() {
					late.Store(l)
				}
				cancel()
			}
		})
	}
	for range 3 {
		p.Hold(true)
		time.Sleep(2500 * time.Millisecond)
		p.Hold(false)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, server.Freeze())
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, server.Thaw())
		time.Sleep(500 * time.Millisecond)
		p.Forget()
		time.Sleep(2500 * time.Millisecond)
		p.Cut()
		time.Sleep(500 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	t.Log(time.Duration(late.Load()))
	require.Less(t, time.Duration(late.Load()), 100*time.Millisecond)
}

// X1-13. A storm of short calls of several sessions while paths are switched all the time: exclusion by a read-modify-write, and nothing
// is left in Redis, much sooner than a lease.
func TestX1StormAcrossSwitchesKeepsExclusionAndLeavesNothing(t *testing.T) {
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

// X1-14. Shutdown while paths are switched, with holds, waiters and kept leases: it returns once all have ended.
func TestX1ShutdownAcrossASwitch(t *testing.T) {
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

// stalls reports when this process itself does not run: the control of TestX1CallsReturnWithTheirContext.
func stalls(t *testing.T, stop <-chan struct{}) {
	for {
		at := time.Now()
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if d := time.Since(at) - 20*time.Millisecond; d > 60*time.Millisecond {
			t.Log("stall", d, time.Now().Format("05.0"))
		}
	}
}
