package virtual_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// busy takes and leaves a lock until the end, and returns how often it had it and the longest time that
// it waited.
func busy(l relock.Locker, section time.Duration, end time.Time) (n int, longest time.Duration) {
	for time.Now().Before(end) {
		longest = max(longest, took(func() { _ = l.Lock(background) }))
		n++
		time.Sleep(section)
		_ = l.Unlock(background)
	}
	return n, longest
}

// Processes whose goroutines want the lock all the time share it evenly, and one that has a single
// goroutine has a turn in each round.
func TestSaturatingProcessesShareTheLock(t *testing.T) {
	const processes, goroutines = 4, 8
	onEach(t, func(t *testing.T, w *world) {
		if !w.exclusive() || w.typ.redis > 1 || len(w.typ.names) > 1 {
			return
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		counts := make([]int, processes)
		single := w.process()
		ps := make([]*process, processes)
		for i := range ps {
			ps[i] = w.process()
		}
		end := time.Now().Add(2 * time.Second)
		for i, p := range ps {
			p.delay(oneWay)
			for range goroutines {
				wg.Go(func() {
					n, _ := busy(p.lock(), time.Millisecond, end)
					mu.Lock()
					defer mu.Unlock()
					counts[i] += n
				})
			}
		}
		single.delay(oneWay)
		n, longest := busy(single.lock(), time.Millisecond, end)
		wg.Wait()
		t.Log(counts, n, longest)
		require.LessOrEqual(t, slices.Max(counts), 2*slices.Min(counts))
		require.Less(t, longest, 250*time.Millisecond)
	})
}

// Goroutines that read keep no writer out, and goroutines that write no reader, within a process and
// among processes, near and far.
func TestNeitherReadersNorWritersStarve(t *testing.T) {
	for _, writes := range []bool{false, true} {
		for _, apart := range []bool{false, true} {
			for _, far := range []time.Duration{0, 50 * time.Millisecond} {
				t.Run(fmt.Sprint(writes, apart, far), func(t *testing.T) {
					alone(t, reader, func(t *testing.T, w *world) {
						side := func(p *process, writes bool) relock.Locker {
							if writes {
								return p.s[0].RWMutex("a")
							}
							return p.lock()
						}
						ps := []*process{w.process(), w.process(), w.process()}
						if !apart {
							ps = []*process{ps[0], ps[0], ps[0]}
						}
						end := time.Now().Add(time.Second)
						var wg sync.WaitGroup
						for _, p := range ps[:2] {
							for range 4 {
								wg.Go(func() { busy(side(p, !writes), 5*time.Millisecond, end) })
							}
						}
						ps[2].delay(far)
						n, longest := busy(side(ps[2], writes), 5*time.Millisecond, end)
						wg.Wait()
						t.Log(n, longest)
						require.Greater(t, n, 2)
						require.Less(t, longest, time.Second)
					})
				})
			}
		}
	}
}
