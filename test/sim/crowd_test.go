package sim_test

import (
	"slices"
	"time"
)

// claim is how long a lock is kept at most for a waiter that does not come.
const claim = 5 * time.Second

// handOver is how long a lock may be on its way from one process to the next.
const handOver = 300 * time.Millisecond

// checkCrowd checks that a process that stops keeps the others waiting for its lease and one claim, no
// matter how many of its goroutines wait.
func (w *world) checkCrowd() {
	if w.plan.row.name != "crowd" {
		return
	}
	for _, t := range w.troubles {
		to := w.took
		if t.kind == cutBoth {
			to = t.to
		}
		for _, name := range w.plan.names {
			if d, most := w.idle(name, t.proc, t.from, to), w.procs[t.proc].lease+claim+time.Second; d > most {
				w.fail("what waits in a stopped process costs one claim in all", "%v without a holder of %s, while others waited", d, name)
			}
		}
	}
}

// idle returns for how long, within a span, processes waited for a lock that none of them held, except a
// stopped one. It does not count hand-overs.
func (w *world) idle(name string, stopped int, from, to time.Duration) (sum time.Duration) {
	var waits, holds [][2]time.Duration
	times := []time.Duration{from, to}
	for _, c := range w.calls {
		if c.p.id == stopped || c.parts[0].name != name {
			continue
		}
		returned, end := w.took, w.took
		if c.returned.seq != 0 {
			returned = c.returned.at
		}
		if c.last().seq != 0 {
			end = c.last().at
		}
		waits = append(waits, [2]time.Duration{c.called.at, returned})
		if c.held {
			holds = append(holds, [2]time.Duration{returned, end})
		}
		times = append(times, c.called.at, returned, end)
	}
	slices.Sort(times)
	begun := time.Duration(-1) // when nobody of them began to have it
	for _, at := range times {
		within := func(s [2]time.Duration) bool { return s[0] <= at && at < s[1] }
		idle := at >= from && at < to && slices.ContainsFunc(waits, within) && !slices.ContainsFunc(holds, within)
		switch {
		case idle && begun < 0:
			begun = at
		case !idle && begun >= 0:
			sum += max(0, at-begun-handOver)
			begun = -1
		}
	}
	return sum
}
