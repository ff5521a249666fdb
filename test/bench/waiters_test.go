package bench_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

// manyWaiters measures what a hand-over of a FairMutex takes with ten goroutines in its
// queue and with a thousand, of several sessions.
func (t *table) manyWaiters(b *testing.B, srv *redistest.Server) {
	const few, many = 10, 1000
	sessions := make([]*relock.Session, 5)
	for i := range sessions {
		sessions[i] = benchSession(b, srv)
	}
	var runs int
	cpus := make(map[int][]float64)
	measure := func(waiters int) func() float64 {
		return func() float64 {
			runs++
			each, cpu := handOvers(srv, sessions, fmt.Sprintf("waiters-%d", runs), waiters)
			cpus[waiters] = append(cpus[waiters], cpu)
			return each
		}
	}
	m := inTurns(5, measure(few), measure(many))
	beside := fmt.Sprintf(" (%d waiters)", few)
	t.grows(fmt.Sprintf("%d waiters on one FairMutex, a hand-over", many), m[1], m[0], beside, took, herdGrowth, 3)
	t.grows("  its server time", median(cpus[many]), median(cpus[few]), beside, took, herdGrowth, 3)
}

// handOvers has so many goroutines in a queue that each joins again at its end, and
// returns what a hand-over takes, and what it takes the server, in nanoseconds.
func handOvers(srv *redistest.Server, sessions []*relock.Session, name string, waiters int) (each, cpu float64) {
	warmUp, span := 500*time.Millisecond, least(100*time.Millisecond, 1200*time.Millisecond)
	var count atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range waiters {
		m := sessions[i%len(sessions)].FairMutex(name)
		wg.Go(func() {
			for !stop.Load() {
				lockUnlock(kit.Background, m)
				count.Add(1)
			}
		})
	}
	time.Sleep(warmUp)
	cpuBefore, _ := serverLoad(srv)
	before, start := count.Load(), time.Now()
	time.Sleep(span)
	cpuAfter, _ := serverLoad(srv)
	n, passed := float64(count.Load()-before), float64(time.Since(start))
	stop.Store(true)
	wg.Wait()
	benchCheck(n > 0, "no hand-over among %d waiters", waiters)
	return passed / n, (cpuAfter - cpuBefore) / n
}

// manyHolds measures what it takes to hold many locks: goroutines, heap, and the
// scripts that renew them.
func (t *table) manyHolds(b *testing.B, srv *redistest.Server) {
	const holds = 10_000
	lease := least(3*time.Second, 6*time.Second)
	s, err := relock.NewSession(kit.Background, kit.NewClient(b, srv), relock.WithLease(lease))
	kit.ChildCheck(err)
	defer s.Close(kit.Background)
	lockUnlock(kit.Background, s.Mutex("first"))

	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	mutexes := make([]*relock.Mutex, holds)
	for i := range mutexes {
		mutexes[i] = s.Mutex("held-" + strconv.Itoa(i))
		kit.ChildCheck(mutexes[i].Lock(kit.Background))
	}
	perHold := float64(heapInUse()-heap) / holds

	const periods = 3
	time.Sleep(lease / 3) // the first period is that of the acquisitions
	before := srv.CommandStats()["evalsha"]
	time.Sleep(periods * (lease / 3))
	scripts := float64(srv.CommandStats()["evalsha"]-before) / periods
	more := runtime.NumGoroutine() - goroutines
	for _, m := range mutexes {
		benchCheck(m.Err() == nil, "a hold was lost: %v", m.Err())
	}
	t.rows = append(t.rows,
		row{name: fmt.Sprintf("%d held locks: goroutines", holds), figure: fmt.Sprint(goroutines + more), floor: fmt.Sprint(goroutines), ratio: float64(more)},
		row{name: "  heap of each, bytes", figure: fmt.Sprintf("%.0f", perHold), floor: "-", ratio: perHold, target: 1024},
		row{name: "  scripts for each 100 and period", figure: fmt.Sprintf("%.0f", scripts), floor: fmt.Sprint(holds / 100), ratio: scripts / (holds / 100), target: 1.05, decimals: 2},
	)
	runtime.KeepAlive(mutexes)
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
