package main

import (
	"fmt"
	"time"
)

const (
	herdSection = 500 * time.Microsecond
	herdUnfair  = 1.5 // the longest wait by that of a strict order of arrival, at most
)

// herdRows are the figures for one number of processes.
type herdRows struct{ rate, server, commands, longest, client *row }

// herd: many processes hammer one name, with one goroutine each. A worker's processor
// time is that of a process with one thread for Go code; only those workers exist that
// take part.
func (b *bench) herd() error {
	section := b.section("a herd of processes")
	b.report.remark(section, fmt.Sprintf("n processes of one goroutine each hammer one name with sections of %v. "+
		"Commands are all that the server executes, those of scripts among them", herdSection))
	sizes := b.sizes.herd.processes
	rows := make([]herdRows, len(sizes))
	for i, n := range sizes {
		rows[i] = b.herdRows(section, n, i == len(sizes)-1)
	}
	peers := b.fastest()
	for round := range b.sizes.herd.rounds {
		for i, n := range sizes {
			if round > 0 && i > 0 && i < len(sizes)-1 {
				continue // between the smallest and the largest one round shows the way
			}
			err := b.inTurns(1, rotated(peers, round), func(p *peer, _ int) error {
				return b.hammer(section, p, n, &rows[i])
			})
			if err != nil {
				return err
			}
		}
	}
	if rate, ok := rows[0].rate.value(ours); ok && !b.far {
		largest := len(sizes) - 1
		rows[largest].longest.limit = herdUnfair * float64(sizes[largest]) * 1e9 / rate
	}
	b.report.herd(section, sizes, rows, !b.far)
	return nil
}

func rotated(peers []*peer, by int) []*peer {
	by %= max(len(peers), 1)
	return append(append([]*peer(nil), peers[by:]...), peers[:by]...)
}

func (b *bench) herdRows(section string, n int, largest bool) herdRows {
	line := func(name string, u unit, good direction) figure {
		return figure{section: section, name: fmt.Sprintf("n = %d: %s", n, name), unit: u, good: good}
	}
	rate, server := line("acquisitions", perSecond, more), line("server time of each", nanoseconds, less)
	commands, longest := line("commands of each", number, less), line("longest wait", nanoseconds, less)
	client := line("processes' time of each", nanoseconds, less)
	if largest && !b.far {
		rate.goal, server.goal, commands.limit = 1.4, 4, 20
		rate.chart = fmt.Sprintf("%d processes, one name", n)
		server.chart = fmt.Sprintf("%d processes: server time", n)
	}
	r := b.report
	return herdRows{r.row(rate), r.row(server), r.row(commands), r.row(longest), r.row(client)}
}

// hammer has n workers of a peer hammer a new name, and looks at the server meanwhile. The
// workers are started for it and end with it.
func (b *bench) hammer(section string, p *peer, n int, rows *herdRows) error {
	crew := b.crew(section, lease)
	crew.threads = 1
	defer crew.end()
	hands := crew.of(p, n)
	if hands == nil {
		return nil
	}
	b.shared.reset()
	z := b.sizes.herd
	name, start := b.fresh("herd"), monotonic()+int64(100*time.Millisecond)
	tasks := make([]*task, n)
	for i := range tasks {
		tasks[i] = &task{
			Do: "herd", Name: name, Start: start, WarmUp: z.warmUp, Span: z.span, Section: herdSection,
			Limit: z.warmUp + time.Minute, Stuck: b.sizes.stuck,
		}
	}
	crew.begin(p, hands, tasks)
	sleepUntil(start + int64(z.warmUp))
	before, err := b.srv.load()
	if err != nil {
		return err
	}
	sleepUntil(start + int64(z.warmUp+z.span))
	after, err := b.srv.load()
	if err != nil {
		return err
	}
	outs, ok := crew.answers(p, hands, tasks)
	if !ok {
		return nil
	}
	var all outcome
	var cpu time.Duration
	for i := range outs {
		all.add(&outs[i])
		cpu += outs[i].Used.CPU
	}
	b.check(section, p, &all)
	if all.Counted == 0 {
		return nil
	}
	used, count := after.since(before), float64(all.Counted)
	rows.rate.add(p, count/z.span.Seconds())
	rows.server.add(p, float64(used.cpu)/count)
	rows.commands.add(p, float64(used.commands)/count)
	rows.longest.add(p, float64(all.Longest))
	rows.client.add(p, float64(cpu)/float64(all.Acquired))
	return nil
}
