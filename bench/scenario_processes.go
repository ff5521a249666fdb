package main

import (
	"fmt"
	"slices"
)

// processes: several processes with several goroutines each want the same lock.
func (b *bench) processes() error {
	section := b.section("several processes")
	b.report.remark(section, fmt.Sprintf("so many processes of %d goroutines each on one name", b.sizes.perProcess))
	crew := b.crew(section, lease)
	defer crew.end()
	peers := b.peers(true)
	for _, n := range b.sizes.processes {
		name := fmt.Sprintf("%d × %d", n, b.sizes.perProcess)
		f := figure{section: section, name: name, unit: perSecond, good: more}
		if n == 4 {
			f.goal = b.goal(8)
			if !b.far {
				f.chart = fmt.Sprintf("%d processes × %d, one name", n, b.sizes.perProcess)
			}
		}
		rate := b.report.row(f)
		var share *row
		if n > 1 {
			share = b.report.row(figure{section: section, name: name + ": busiest by least busy", unit: times, good: less})
		}
		longest := b.report.row(figure{section: section, name: name + ": longest wait", unit: nanoseconds, good: less, of: largest})
		won := make(map[string][]float64)
		err := b.inTurns(b.sizes.rounds+1, peers, func(p *peer, round int) error {
			outs, ok := b.compete(crew, p, n)
			if !ok || round == 0 { // to warm up
				return nil
			}
			var all outcome
			if won[p.id] == nil {
				won[p.id] = make([]float64, n)
			}
			for i := range outs {
				all.add(&outs[i])
				won[p.id][i] += float64(outs[i].Counted)
			}
			rate.add(p, float64(all.Counted)/b.sizes.slice.Seconds())
			longest.add(p, float64(all.Longest))
			return nil
		})
		if err != nil {
			return err
		}
		for _, p := range peers {
			if counts := won[p.id]; share != nil && counts != nil {
				// One that got nothing counts as if it had got one.
				share.add(p, slices.Max(counts)/max(slices.Min(counts), 1))
			}
		}
	}
	return nil
}

// compete lets n processes of a peer lock the same name for a slice of time.
func (b *bench) compete(crew *crew, p *peer, n int) (outs []outcome, ok bool) {
	hands := crew.of(p, n)
	if hands == nil {
		return nil, false
	}
	b.shared.reset()
	tasks := make([]*task, n)
	name, start := b.fresh("processes"), startSoon()
	for i := range tasks {
		tasks[i] = &task{
			Do: "race", Name: name, Goroutines: b.sizes.perProcess,
			Start: start, Span: b.sizes.slice, Stuck: b.sizes.stuck,
		}
	}
	outs, ok = crew.all(p, hands, tasks)
	if ok {
		var all outcome
		for i := range outs {
			all.add(&outs[i])
		}
		b.check(crew.section, p, &all)
	}
	return outs, ok
}
