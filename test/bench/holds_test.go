package bench_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

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
