// Package sim_test simulates worlds of processes that share locks while their network and their
// Redis fail, and checks that relock keeps what it promises.
//
// # What is simulated
//
// A seed gives a plan: 2 to 8 processes with sessions, leases, tenures and latencies; goroutines of
// theirs, the actors, with what each locks, when, and for how long; and the faults. The locks are
// Mutex, FairMutex, both sides of RWMutex, Group and Redlock, taken by Lock, with and without the
// end of a context, and by TryLock, with owners that lock again, writers that read as well,
// leases that are fixed, of another length, or bounded. A world runs in a bubble of testing/synctest
// over [memredis], and takes a few milliseconds for half a minute.
//
// The faults are those of [faultKind]: latency, cuts in each direction, broken connections, replies
// that are lost after execution, restarts with and without data, forgotten scripts, errors of each
// class, clocks that step ahead and back, evicted keys, locks that are forced open, sessions that
// are closed amid calls, and processes that vanish, noticed by the server or not.
//
// Most worlds have any of them. The others are those of a [row]: outages of less than half a lease, processes
// that stop with many waiters, another user's messages and damage, a lock of many that is forbidden, near and
// far processes with leases of 60 ms and 30 s, and steps of the clock that are shorter than a lease. They have
// little else, which might excuse what they must not do.
//
// # What is checked
//
// While it runs: certain holds never overlap (where a fault gives that up, by loss of data, eviction,
// force, or a clock that jumps ahead, their tokens still differ and grow); Redis has each hold that is certain, for as long
// as its deadline says, gives no lock twice, and no hold id two places or two grants; until the first fault the first of a
// queue gets the lock, and no reader passes a writer; a loss is told by the deadline, and not before it; Unlock and Err tell
// of it; an owner re-enters at once; no call blocks for ever. Afterwards: calls fail only with a reason, and end with their
// contexts; TryLock does not wait, and Unlock 2 s at most; tokens grow, also when the server's clock steps back, unless it has
// lost its data or a minute has gone by; TryLock finds a free lock free; no waiter sleeps when the lock is free;
// no hold is
// lost by an outage that is shorter than half its lease and begins 50 ms or more after Lock returned; what waits in a process
// that stops costs one claim in all; no process has less than a tenth of an even share; forged messages, values that are no
// token, and what is wrong with other locks excuse nothing; Unlock releases whatever is wrong beside the lock;
// without faults, places are served in order of arrival, readers and writers take turns, and nobody starves; nothing is left
// in Redis, in the sessions, or of goroutines; and Porcupine finds an order in which one lock in
// one process could have done the same.
//
// # A seed that fails
//
// The test prints what failed, all that happened, and a command that repeats it with the fewest
// faults and actors that still fail. A seed determines the plan and, with distinct times, most
// orders. But goroutines that are ready at the same instant run in any order, so the command
// runs the world many times, until it fails.
//
//	make sim SEEDS=100000 FIRST=501
//
// runs other seeds than `make test`, and prints what they contained; with TESTFLAGS=-sim.row=away only those of a row.
package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	firstSeed = flag.Uint64("sim.first", 1, "the first seed")
	seeds     = flag.Uint64("sim.seeds", 500, "how many seeds")
	shrinks   = flag.Duration("sim.shrink", time.Minute, "how long to shrink a seed that fails, in real time")
	onlyRow   = flag.String("sim.row", "", "only worlds of this row")
	onlyParts keep
)

func init() {
	flag.Func("sim.faults", "only these faults, as 0,3", onlyParts.faults.set)
	flag.Func("sim.actors", "only these actors", onlyParts.actors.set)
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // worlds make much garbage and keep little
	goleak.VerifyTestMain(m)
}

// hangs is how long a world may take, in real time.
const hangs = 5 * time.Minute

func TestSimulation(t *testing.T) {
	all := totals{of: make(map[string]int)}
	var next atomic.Uint64
	next.Store(*firstSeed)
	start := time.Now()
	t.Run("worlds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					seed := next.Add(1) - 1
					if seed >= *firstSeed+*seeds {
						return
					}
					all.add(simulate(t, seed))
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(all.of)) {
		fmt.Printf("%9d %s\n", all.of[what], what)
	}
	fmt.Println(time.Since(start).Round(time.Millisecond), "real")
}

// simulate runs the world of a seed, and reports what failed.
func simulate(t *testing.T, seed uint64) *world {
	p := newPlan(seed)
	if *onlyRow != "" && p.row.name != *onlyRow {
		return &world{plan: p}
	}
	timer := time.AfterFunc(hangs, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d does not end", seed))
	})
	defer timer.Stop()
	w := run(t, p, onlyParts)
	if len(w.failures) > 0 {
		timer.Stop()
		small, parts := shrink(t, w, onlyParts)
		t.Errorf("seed %d:\n%s\nIt fails again with:\n  %s", seed, small.report(), parts.command(seed))
	}
	return w
}

// totals are what the worlds contained.
type totals struct {
	mu sync.Mutex
	of map[string]int
}

func (t *totals) add(w *world) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of["worlds"]++
	t.of["operations"] += len(w.calls)
	t.of["processes"] += len(w.procs)
	t.of["histories through Porcupine"] += w.linear
	t.of["virtual seconds"] += int(w.took.Seconds())
	for _, c := range w.calls {
		if c.held {
			t.of["holds"]++
		}
		if c.lost.seq != 0 {
			t.of["holds that were lost"]++
		}
	}
	for _, x := range w.troubles {
		t.of["fault: "+x.kind.String()]++
	}
	if testing.Verbose() && t.of["worlds"]%1000 == 0 {
		fmt.Println(t.of["worlds"], "worlds")
	}
}
