package sim_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// attempts is how often a world runs before it counts as one that does not fail.
const attempts = 5

// keep says which faults and actors of a plan are kept.
type keep struct{ faults, actors selection }

// A selection is some indexes, or all.
type selection struct {
	some bool
	of   []int
}

func (s *selection) has(i int) bool { return !s.some || slices.Contains(s.of, i) }

// without returns s, of n, without those from i to j of its indexes.
func (s selection) without(n, i, j int) selection {
	of := s.indexes(n)
	return selection{true, slices.Delete(of, i, min(j, len(of)))}
}

func (s selection) indexes(n int) (of []int) {
	for i := range n {
		if s.has(i) {
			of = append(of, i)
		}
	}
	return of
}

func (s *selection) String() string {
	switch {
	case !s.some:
		return "all"
	case len(s.of) == 0:
		return "none"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(s.of), "[]"), " ", ",")
}

// Set makes a selection a flag.
func (s *selection) Set(text string) error {
	*s = selection{some: text != "all"}
	if text == "all" || text == "none" {
		return nil
	}
	for field := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		s.of = append(s.of, i)
	}
	return nil
}

// command returns what repeats a world.
func (k keep) command(seed uint64) string {
	s := fmt.Sprintf("go test ./test/sim -run Simulation -sim.first=%d -sim.seeds=1", seed)
	if k.faults.some {
		s += " -sim.faults=" + k.faults.String()
	}
	if k.actors.some {
		s += " -sim.actors=" + k.actors.String()
	}
	return s + " -count=1000 -failfast"
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
	part := func(n int, of func(*keep) *selection) {
		for size := n; size > 0; size /= 2 {
			for i := 0; i < len(of(&k).indexes(n)); {
				less := k
				*of(&less) = of(&k).without(n, i, i+size)
				if fails(less) {
					k = less
				} else {
					i += size
				}
			}
		}
	}
	part(len(w.plan.faults), func(k *keep) *selection { return &k.faults })
	part(len(w.plan.actors), func(k *keep) *selection { return &k.actors })
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
	for i := range w.troubles {
		fmt.Fprintf(&b, "%v\n", w.troubles[i].fault)
	}
	b.WriteString("\ncalls:\n")
	for _, c := range w.calls {
		fmt.Fprintf(&b, "%v\n", c)
	}
	return b.String()
}
