package bench_test

import (
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
	floor, lock := &bare{client: kit.NewClient(b, srv)}, newBareLock("floor")
	pairFloor := func() float64 { return nsPerOp(200, func() { floor.pair(&lock) }) }

	alone := benchSession(b, srv).Mutex("alone")
	crowded := benchSession(b, srv).Mutex("crowded")
	owners := benchSession(b, srv)
	owned, owner := owners.Mutex("owned"), owners.NewContext(kit.Background)
	kit.ChildCheck(owned.Lock(owner))

	m := inTurns(benchRounds,
		pairFloor,
		func() float64 { return nsPerOp(200, func() { lockUnlock(kit.Background, alone) }) },
		pairFloor,
		func() float64 {
			return 1 / throughput(20*time.Millisecond, benchGoroutines, func(int) { lockUnlock(kit.Background, crowded) })
		},
		pairFloor,
		func() float64 { return nsPerOp(20_000, func() { lockUnlock(owner, owned) }) },
	)
	allocs := testing.AllocsPerRun(2000, func() { lockUnlock(kit.Background, alone) })
	reentrantAllocs := testing.AllocsPerRun(2000, func() { lockUnlock(owner, owned) })

	t.add("uncontended Lock+Unlock, one goroutine", m[1], m[0], 1.15, 3)
	t.rows = append(t.rows, row{name: "  its allocations", figure: fmt.Sprint(allocs), floor: "-", ratio: allocs, target: 4})
	t.add(fmt.Sprintf("%d goroutines on one name, one process", benchGoroutines), m[3], m[2], 0.05, 4)
	t.add("re-entrant Lock+Unlock", m[5], m[4], 0.005, 5)
	t.rows = append(t.rows, row{name: "  its allocations", figure: fmt.Sprint(reentrantAllocs), floor: "-", ratio: reentrantAllocs})
}

// names measures goroutines that do not meet, against the bare calls by as many: on
// the wires that rueidis chooses for commands whose keys it knows, and on the one
// that it uses for the others, whichever is faster.
func (t *table) names(b *testing.B, srv *redistest.Server) {
	const span = 50 * time.Millisecond
	locks := make([]bareLock, benchGoroutines)
	s := benchSession(b, srv)
	var mutexes [benchGoroutines]func()
	for i := range locks {
		locks[i] = newBareLock(fmt.Sprintf("bare-%d", i))
		m := s.Mutex(fmt.Sprintf("name-%d", i))
		mutexes[i] = func() { lockUnlock(kit.Background, m) }
	}
	many, one := &bare{client: kit.NewClient(b, srv), keyed: true}, &bare{client: kit.NewClient(b, srv)}
	m := inTurns(benchRounds,
		func() float64 { return throughput(span, benchGoroutines, func(i int) { many.pair(&locks[i]) }) },
		func() float64 { return throughput(span, benchGoroutines, func(i int) { mutexes[i]() }) },
		func() float64 { return throughput(span, benchGoroutines, func(i int) { one.pair(&locks[i]) }) },
		func() float64 { return throughput(span, benchGoroutines, func(i int) { mutexes[i]() }) },
	)
	ours := (m[1] + m[3]) / 2
	perSecond := func(perNS float64) string { return fmt.Sprintf("%.0f/s", perNS*1e9) }
	t.rows = append(t.rows, row{
		name:   fmt.Sprintf("%d goroutines on %d names", benchGoroutines, benchGoroutines),
		figure: perSecond(ours),
		floor:  fmt.Sprintf("%s (wires by key %s, one wire %s)", perSecond(max(m[0], m[2])), perSecond(m[0]), perSecond(m[2])),
		ratio:  ours / max(m[0], m[2]), target: 0.85, atLeast: true, decimals: 3,
	})
}

// add adds a row of which figure and floor are nanoseconds.
func (t *table) add(name string, figure, floor, target float64, decimals int) {
	t.rows = append(t.rows, row{name: name, figure: took(figure), floor: took(floor), ratio: figure / floor, target: target, decimals: decimals})
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
	alone := func(s *relock.Session, name string) func() {
		m := s.Mutex(name)
		return func() { lockUnlock(kit.Background, m) }
	}
	crowd := func(f func()) func() float64 {
		return func() float64 {
			return 1 / throughput(20*time.Millisecond, benchGoroutines, func(int) { f() })
		}
	}
	pair := func(f func()) func() float64 { return func() float64 { return nsPerOp(100, f) } }
	without, with := alone(bare, "without"), alone(observed, "with")
	m := inTurns(2*benchRounds+1, pair(without), pair(with), crowd(without), crowd(with))
	t.add("uncontended Lock+Unlock with an observer", m[1], m[0], 1.02, 3)
	t.add(fmt.Sprintf("%d goroutines on one name with one", benchGoroutines), m[3], m[2], 1.5, 3)
	allocs := func(f func()) float64 { return testing.AllocsPerRun(2000, f) }
	none, some := allocs(without), allocs(with)
	t.rows = append(t.rows, row{
		name: "  allocations of a pair with one", figure: fmt.Sprint(some), floor: fmt.Sprint(none), ratio: some - none, target: 4,
	})
}
