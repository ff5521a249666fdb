package main

import (
	"fmt"
	"time"
)

// names: as many names as goroutines, of which none meets another.
func (b *bench) names() error {
	section := b.section("many names")
	b.report.remark(section, "so many goroutines of one process on as many names")
	return b.crowds(section, true, b.peers(false), 1.2, 2)
}

// oneName: goroutines of one process that want the same lock.
func (b *bench) oneName() error {
	section := b.section("one name in one process")
	b.report.remark(section, "so many goroutines of one process on one name, each adding one to a counter while it has it")
	return b.crowds(section, false, b.peers(true), 30, 1)
}

// crowds measures in slices that are so many times as short, in so many times as many
// rounds: where nobody waits, a short one tells as much as a long one.
func (b *bench) crowds(section string, distinct bool, peers []*peer, goal float64, times int) error {
	slice := b.sizes.slice / time.Duration(times)
	crew := b.crew(section, lease)
	defer crew.end()
	for _, n := range b.sizes.goroutines {
		f := figure{section: section, name: fmt.Sprintf("%d goroutines", n), unit: perSecond, good: more}
		if n == 1 {
			f.name = "1 goroutine"
		}
		longest := figure{section: section, name: f.name + ": longest wait", unit: nanoseconds, good: less, of: largest}
		if n == 64 {
			f.goal = b.goal(goal)
			if !b.far {
				f.chart = fmt.Sprintf("64 goroutines, %s", map[bool]string{true: "64 names", false: "one name"}[distinct])
			}
		}
		rate, wait := b.report.row(f), (*row)(nil)
		if !distinct && n > 1 {
			wait = b.report.row(longest)
		}
		err := b.inTurns(times*b.sizes.rounds+1, peers, func(p *peer, round int) error {
			hands := crew.of(p, 1)
			if hands == nil {
				return nil
			}
			b.shared.reset()
			out, ok := crew.do(p, hands[0], &task{
				Do: "race", Name: b.fresh("crowd"), Goroutines: n, Distinct: distinct,
				Span: slice, Stuck: b.sizes.stuck,
			})
			if !ok {
				return nil
			}
			if !distinct {
				b.check(section, p, &out)
			}
			if round > 0 { // the first one is to warm up
				rate.add(p, float64(out.Counted)/slice.Seconds())
				if wait != nil {
					wait.add(p, float64(out.Longest))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// check compares the shared counter with the acquisitions. Each one missing is a lock
// that two had at once.
func (b *bench) check(section string, p *peer, out *outcome) {
	if out.Hung == 0 { // else who hangs may still count
		b.report.fault(section, p).violations += out.Acquired - b.shared.cell(counted).Load()
	}
}
