package bench_test

import (
	"fmt"
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
	var fewCPU, manyCPU []float64
	measure := func(waiters int, cpus *[]float64) func() float64 {
		return func() float64 {
			runs++
			each, cpu := handOvers(srv, sessions, fmt.Sprintf("waiters-%d", runs), waiters)
			*cpus = append(*cpus, cpu)
			return each
		}
	}
	all := inTurns(5, measure(few, &fewCPU), measure(many, &manyCPU))
	beside := fmt.Sprintf(" (%d waiters)", few)
	fewTook, manyTook, fewServer, manyServer := all[0], all[1], median(fewCPU), median(manyCPU)
	t.rows = append(t.rows, row{
		name:   fmt.Sprintf("%d waiters on one FairMutex, a hand-over", many),
		figure: took(manyTook), floor: took(fewTook) + beside,
		ratio: manyTook / fewTook, target: herdGrowth, decimals: 3,
	}, row{
		name:   "  its server time",
		figure: took(manyServer), floor: took(fewServer) + beside,
		ratio: manyServer / fewServer, target: herdGrowth, decimals: 3,
	})
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
