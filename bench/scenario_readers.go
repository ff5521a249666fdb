package main

import (
	"fmt"
	"slices"
)

// readers: many goroutines of one process read what a goroutine of another process
// writes now and then. Where a library has no lock of readers and writers, both take
// the lock that it has.
func (b *bench) readers() error {
	const writes = 1 // per cent
	section := b.section("readers and a writer")
	b.report.remark(section, fmt.Sprintf(
		"%d goroutines of one process read, another process makes %d %% as many writes. "+
			"No peer has a lock of readers and writers: theirs is the lock they have", b.sizes.readers, writes))
	crew := b.crew(section, lease)
	defer crew.end()
	f := figure{section: section, name: "reads", unit: perSecond, good: more}
	if !b.far {
		f.chart = "64 readers, 1 % writes"
	}
	reading := b.report.row(f)
	share := b.report.row(figure{section: section, name: "writes by reads", unit: percent})
	longestRead := b.report.row(figure{section: section, name: "longest wait of a reader", unit: nanoseconds, good: less, of: largest})
	longestWrite := b.report.row(figure{section: section, name: "longest wait of the writer", unit: nanoseconds, good: less, of: largest})
	peers := slices.DeleteFunc(b.peers(true), func(p *peer) bool { return p.own && p.again })
	return b.inTurns(b.sizes.rounds+1, peers, func(p *peer, round int) error {
		hands := crew.of(p, 2)
		if hands == nil {
			return nil
		}
		b.shared.reset()
		read := &task{
			Do: "race", Name: b.fresh("readers"), Goroutines: b.sizes.readers, Side: "read",
			Start: startSoon(), Span: b.sizes.slice, Stuck: b.sizes.stuck,
		}
		write := *read
		write.Goroutines, write.Side, write.Percent = 1, "write", writes
		outs, ok := crew.all(p, hands, []*task{read, &write})
		if !ok || round == 0 { // to warm up
			return nil
		}
		reading.add(p, float64(outs[0].Counted)/b.sizes.slice.Seconds())
		if outs[0].Counted > 0 {
			share.add(p, 100*float64(outs[1].Counted)/float64(outs[0].Counted))
		}
		longestRead.add(p, float64(outs[0].Longest))
		longestWrite.add(p, float64(outs[1].Longest))
		return nil
	})
}
