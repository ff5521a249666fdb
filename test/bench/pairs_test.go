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
	"golang.org/x/sync/errgroup"
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

const benchNodes = 5

// fanOut sends one command to every server at the same time, and waits for all replies.
func fanOut(n int, send func(i int)) {
	var eg errgroup.Group
	for i := range n - 1 {
		eg.Go(func() error { send(i + 1); return nil })
	}
	send(0)
	_ = eg.Wait()
}

// redlock measures Lock+Unlock of a Redlock against the bare acquire and release on one
// server, all servers up and one of them frozen. On few processors the servers are in
// each other's way; what the same calls take without relock, sent to as many servers at
// the same time, is a second floor.
func (t *table) redlock(b *testing.B, srv *redistest.Server) {
	servers := []*redistest.Server{srv}
	for range benchNodes {
		servers = append(servers, redistest.Start(b))
	}
	frozen := servers[benchNodes]
	lock := newBareLock("floor")
	var bares []*bare
	var up, down []*relock.Session
	for i, at := range servers {
		c := &bare{client: kit.NewClient(b, at)}
		benchCheck(loadScripts(c.client) == nil, "SCRIPT LOAD failed")
		if at != frozen {
			bares = append(bares, c)
			up = append(up, benchSession(b, at))
		}
		if i != 0 {
			down = append(down, benchSession(b, at))
		}
	}
	all, most := relock.NewRedlock(up, "red"), relock.NewRedlock(down, "most")
	lockUnlock(kit.Background, most)
	benchCheck(frozen.Freeze() == nil, "the server does not freeze")
	lockUnlock(kit.Background, most) // waits for it

	bareAll := func(bares []*bare) {
		id := bares[0].newID()
		fanOut(len(bares), func(i int) {
			granted, err := bares[i].acquire(kit.Background, &lock, id)
			benchCheck(err == nil && granted, "bare acquire: %v, %v", granted, err)
		})
		fanOut(len(bares), func(i int) {
			held, err := bares[i].release(kit.Background, &lock, id)
			benchCheck(err == nil && held, "bare release: %v, %v", held, err)
		})
	}
	bare := func(bares []*bare) func() float64 {
		return func() float64 { return nsPerOp(100, func() { bareAll(bares) }) }
	}
	m := inTurns(benchRounds, pairFloor(b, srv), bare(bares), pairs(100, kit.Background, all),
		bare(bares[1:]), pairs(100, kit.Background, most))
	benchCheck(frozen.Thaw() == nil, "the server does not thaw")
	t.addBeside(fmt.Sprintf("Redlock over %d servers", benchNodes), m[2], m[0], m[1], 2.5)
	t.addBeside("Redlock, one of them frozen", m[4], m[0], m[3], 3)
}

// addBeside adds a row like add, and one with the same calls without relock as floor.
func (t *table) addBeside(name string, figure, floor, same, target float64) {
	t.add(name, figure, floor, target, 2)
	t.add("  beside the bare fan-out", figure, same, 1.25, 2)
}

// groups measures Lock+Unlock of a group of Mutexes of one session.
func (t *table) groups(b *testing.B, srv *redistest.Server) {
	const members = 10
	s := benchSession(b, srv)
	var locks []relock.Locker
	for i := range members {
		locks = append(locks, s.Mutex(fmt.Sprint("member-", i)))
	}
	m := inTurns(benchRounds, pairFloor(b, srv), pairs(100, kit.Background, relock.NewGroup(locks...)))
	t.add(fmt.Sprintf("Group of %d Mutexes of one session", members), m[1], m[0], 1.6, 3)
}
