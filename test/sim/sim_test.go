// Package sim_test simulates worlds of processes that share locks while their network and their
// Redis fail, and checks that relock keeps what it promises.
//
// # What is simulated
//
// A seed gives a plan: 2 to 8 processes with sessions, leases, tenures and latencies; goroutines of
// theirs, the actors, with the ops of each; and faults of each [faultKind]. The locks are of all types, sides and
// options, taken by Lock, Acquire and their attempts, with owners that lock again and writers that read as well; some
// Mutexes are handed to another process, which unlocks. A world
// runs in a bubble of testing/synctest over [memredis], and takes a few milliseconds for half a minute.
//
// Most worlds have any fault. The others are those of a [row], about one thing: they have
// little else, which might excuse what they must not do.
//
// # What is checked
//
// While it runs: certain holds never overlap (where a fault gives that up, by loss of data, eviction, force, or a
// clock that jumps ahead, their tokens still differ and grow); Redis has each hold that is certain, for as long as its
// deadline says, gives no lock twice, and no hold id two places or two grants; until the first fault the first of a
// queue gets the lock, and no reader passes a writer; a loss is told by the deadline, and not before it; Unlock and
// Err tell of it; an owner re-enters at once; no call blocks for ever. Afterwards: calls fail only with a reason, and
// end with their contexts; TryLock does not wait, and Unlock 2 s at most; tokens grow, also when the server's clock
// steps back, unless it has lost its data or a minute has gone by; TryLock finds a free lock free; no waiter sleeps
// when the lock is free; no hold is lost by an outage that is shorter than half its lease and begins 50 ms or more
// after Lock returned; what waits in a process that stops costs one grant timeout in all; no process has less than a tenth of
// an even share; forged messages, values that are no token, and what is wrong with other locks excuse nothing; Unlock
// releases whatever is wrong beside the lock; without faults, places are served in order of arrival, readers and
// writers take turns, and nobody starves; nothing is left in Redis, in the sessions, or of goroutines; and Porcupine
// finds an order in which one lock in one process could have done the same.
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
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
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
	traceScripts()
	goleak.VerifyTestMain(m)
}

// hangs is how long a world may take, in real time.
const hangs = 5 * time.Minute

func TestSimulation(t *testing.T) {
	var mu sync.Mutex
	totals := make(map[string]int) // which mu protects
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
					w := simulate(t, seed)
					mu.Lock()
					w.count(totals)
					mu.Unlock()
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(totals)) {
		fmt.Printf("%9d %s\n", totals[what], what)
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
	kept := keep{onlyParts.faults.orAll(len(p.faults)), onlyParts.actors.orAll(len(p.actors))}
	w := run(t, p, kept)
	if len(w.failures) > 0 {
		timer.Stop()
		small, parts := shrink(t, w, kept)
		t.Errorf("seed %d:\n%s\nIt fails again with:\n  %s", seed, small.report(), parts.command(seed))
	}
	return w
}

// count adds to totals what a world contained.
func (w *world) count(totals map[string]int) {
	totals["worlds"]++
	totals["operations"] += len(w.calls)
	totals["processes"] += len(w.procs)
	totals["histories through Porcupine"] += w.linear
	totals["steps that the specification accepts"] += w.accepted
	totals["steps that the specification does not know"] += w.aside
	totals["virtual seconds"] += int(w.took.Seconds())
	for _, c := range w.calls {
		if c.held {
			if totals["holds"]++; c.nested && c.op.handsOff {
				totals["adoptions"]++
			}
		}
		if c.lost.seq != 0 {
			totals["holds that were lost"]++
		}
	}
	for _, x := range w.troubles {
		totals["fault: "+string(x.kind)]++
	}
}

// attempts is how often a world runs before it counts as one that does not fail.
const attempts = 5

// keep says which faults and actors of a plan are kept.
type keep struct{ faults, actors selection }

// A selection is some indexes. A flag has it as 0,3.
type selection []int

func (s selection) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint([]int(s)), "[]"), " ", ",")
}

func (s *selection) set(text string) error { return json.Unmarshal([]byte("["+text+"]"), s) }

// orAll returns all indexes of n if no flag has selected some.
func (s selection) orAll(n int) selection {
	if s == nil {
		s = make(selection, n)
		for i := range s {
			s[i] = i
		}
	}
	return s
}

// command returns what repeats a world.
func (k keep) command(seed uint64) string {
	return fmt.Sprintf("go test ./test/sim -run Simulation -count=1000 -failfast "+
		"-sim.first=%d -sim.seeds=1 -sim.faults=%v -sim.actors=%v", seed, k.faults, k.actors)
}

// shrink leaves out faults, and then actors, as long as the world fails in the same way. It
// returns the last world that failed, and what was in it.
func shrink(t *testing.T, w *world, k keep) (*world, keep) {
	end := time.Now().Add(*shrinks)
	claim := w.failures[0].claim
	fails := func(k keep) bool {
		for range attempts {
			if time.Now().After(end) {
				return false
			}
			again := run(t, w.plan, k)
			if slices.ContainsFunc(again.failures, func(f failure) bool { return f.claim == claim }) {
				w = again
				return true
			}
		}
		return false
	}
	for _, of := range []*selection{&k.faults, &k.actors} {
		for size := len(*of); size > 0; size /= 2 {
			for i := 0; i < len(*of); {
				all := *of
				*of = slices.Delete(slices.Clone(all), i, min(i+size, len(all)))
				if !fails(k) {
					*of, i = all, i+size
				}
			}
		}
	}
	return w, k
}

// report tells what failed, and what happened.
func (w *world) report() string {
	var b strings.Builder
	for i, f := range w.failures {
		if i == 10 {
			fmt.Fprintf(&b, "and %d more\n", len(w.failures)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", strings.ToUpper(f.claim), f.what)
	}
	fmt.Fprintf(&b, "\nrow: %s\nservers: %d\n", w.plan.row.name, w.plan.servers)
	for i, p := range w.plan.procs {
		fmt.Fprintf(&b, "process %d: delay %v, lease %v, tenure %v\n", i, p.delay, p.lease, p.tenure)
	}
	b.WriteString("\nfaults:\n")
	for _, t := range w.troubles {
		fmt.Fprintln(&b, t.at, t.kind, "process", t.proc, "server", t.server, "for", t.lasts, "by", t.step, "n", t.n, t.text,
			"after a Lock", t.after)
	}
	b.WriteString("\ncalls:\n")
	for _, c := range w.calls {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}
