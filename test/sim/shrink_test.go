package sim_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// attempts is how often a world runs before it counts as one that does not fail.
const attempts = 5

// keep says which faults and actors of a plan are kept.
type keep struct{ faults, actors selection }

// A selection is some indexes; nil: all.
type selection []int

func (s selection) has(i int) bool { return s == nil || slices.Contains(s, i) }

// explicit returns a selection of n with its indexes.
func (s selection) explicit(n int) selection {
	of := selection{}
	for i := range n {
		if s.has(i) {
			of = append(of, i)
		}
	}
	return of
}

func (s selection) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint([]int(s)), "[]"), " ", ",")
}

// set makes a selection a flag.
func (s *selection) set(text string) error { return json.Unmarshal([]byte("["+text+"]"), s) }

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
	k.faults, k.actors = k.faults.explicit(len(w.plan.faults)), k.actors.explicit(len(w.plan.actors))
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
		fmt.Fprintln(&b, t.fault)
	}
	b.WriteString("\ncalls:\n")
	for _, c := range w.calls {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}
