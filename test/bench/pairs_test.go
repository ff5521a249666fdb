package bench_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	benchRounds     = 51
	benchGoroutines = 64
)

// pairs measures Lock+Unlock within one process against the pair floor: the bare
// acquire and release by one goroutine.
func (t *table) pairs(b *testing.B, srv *redistest.Server) {
	floor := pairFloor(b, srv)
	alone := benchSession(b, srv).Mutex("alone")
	crowded := benchSession(b, srv).Mutex("crowded")
	owners := benchSession(b, srv)
	owned, owner := owners.Mutex("owned"), owners.NewContext(kit.Background)
	kit.ChildCheck(owned.Lock(owner))

	m := inTurns(benchRounds,
		floor, pairs(200, kit.Background, alone), floor, crowd(crowded), floor, pairs(20_000, owner, owned))
	t.add("uncontended Lock+Unlock, one goroutine", m[1], m[0], 1.15, 3)
	t.counts("  its allocations", allocs(kit.Background, alone), 4)
	t.add(fmt.Sprintf("%d goroutines on one name, one process", benchGoroutines), m[3], m[2], 0.05, 4)
	t.add("re-entrant Lock+Unlock", m[5], m[4], 0.005, 5)
	t.counts("  its allocations", allocs(owner, owned), 0)
}

// crowd returns what measures Lock and Unlock by many goroutines.
func crowd(l relock.Locker) func() float64 {
	return func() float64 {
		return 1 / throughput(20*time.Millisecond, benchGoroutines, func(int) { lockUnlock(kit.Background, l) })
	}
}

// allocs returns how many allocations Lock and Unlock make.
func allocs(ctx context.Context, l relock.Locker) float64 {
	return testing.AllocsPerRun(2000, func() { lockUnlock(ctx, l) })
}

// names measures goroutines that do not meet, against the bare calls by as many: on
// the wires that rueidis chooses for commands whose keys it knows, and on the one
// that it uses for the others, whichever is faster.
func (t *table) names(b *testing.B, srv *redistest.Server) {
	const span = 50 * time.Millisecond
	locks := make([]bareLock, benchGoroutines)
	s := benchSession(b, srv)
	mutexes := make([]*relock.Mutex, benchGoroutines)
	for i := range locks {
		locks[i] = newBareLock(fmt.Sprintf("bare-%d", i))
		mutexes[i] = s.Mutex(fmt.Sprintf("name-%d", i))
	}
	many, one := &bare{client: kit.NewClient(b, srv), keyed: true}, &bare{client: kit.NewClient(b, srv)}
	ours := func() float64 {
		return throughput(span, benchGoroutines, func(i int) { lockUnlock(kit.Background, mutexes[i]) })
	}
	m := inTurns(benchRounds,
		func() float64 { return throughput(span, benchGoroutines, func(i int) { many.pair(&locks[i]) }) }, ours,
		func() float64 { return throughput(span, benchGoroutines, func(i int) { one.pair(&locks[i]) }) }, ours,
	)
	t.reaches(fmt.Sprintf("%d goroutines on %d names", benchGoroutines, benchGoroutines), (m[1]+m[3])/2, max(m[0], m[2]),
		fmt.Sprintf(" (wires by key %s, one wire %s)", perSecond(m[0]), perSecond(m[2])), perSecond, 0.85, 3)
}

// throughput returns how many calls of f per nanosecond n goroutines make.
func throughput(span time.Duration, n int, f func(i int)) float64 {
	var wg sync.WaitGroup
	counts := make([]int, n)
	start := time.Now()
	end := start.Add(least(min(span, 20*time.Millisecond), span))
	for i := range n {
		wg.Go(func() {
			for time.Now().Before(end) {
				f(i)
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, c := range counts {
		total += c
	}
	return float64(total) / float64(time.Since(start))
}

// observer measures what an observer costs that does nothing. The floor is the same call without
// one, which only looks whether there is one: so that costs less than the difference.
func (t *table) observer(b *testing.B, srv *redistest.Server) {
	bare, observed := benchSession(b, srv), benchSession(b, srv, relock.WithObserver(relock.NopObserver{}))
	without, with := bare.Mutex("without"), observed.Mutex("with")
	m := inTurns(2*benchRounds+1,
		pairs(100, kit.Background, without), pairs(100, kit.Background, with), crowd(without), crowd(with))
	t.add("uncontended Lock+Unlock with an observer", m[1], m[0], 1.02, 3)
	t.add(fmt.Sprintf("%d goroutines on one name with one", benchGoroutines), m[3], m[2], 1.5, 3)
	none, some := allocs(kit.Background, without), allocs(kit.Background, with)
	t.rows = append(t.rows, row{
		name: "  allocations of a pair with one", figure: fmt.Sprint(some), floor: fmt.Sprint(none), ratio: some - none, target: 4,
	})
}
