package main

import (
	"fmt"
	"maps"
	"slices"
)

const localityProcesses = 4

// localityRows are the figures for one share of calls for one's own names. without is relock's rate without WithKeep.
type localityRows struct{ rate, server, without *row }

// locality: processes lock names of their own and names that all of them use, each call one at random. What processes
// use again they may keep. It is the sweep of ALock (arXiv 2404.17980).
func (b *bench) locality() error {
	section := b.section("locality")
	z := b.sizes.locality
	b.report.remark(section, fmt.Sprintf("%d processes of one goroutine, each with %d names of its own, and as many that all use; "+
		"so many per cent of the calls are for one's own. relock with WithKeep(1m), unless it says otherwise", localityProcesses, z.names))
	peers := slices.DeleteFunc(b.fastest(), func(p *peer) bool { return p.own && p.again })
	var all []localityRows
	for _, own := range z.own {
		rows := b.localityRows(section, own)
		all = append(all, rows)
		if err := b.localityOf(section, own, peers, rows); err != nil {
			return err
		}
	}
	if !b.far {
		b.report.sweep = b.sweep(z.own, all, peers)
	}
	return nil
}

func (b *bench) localityRows(section string, own int) localityRows {
	name := fmt.Sprintf("%d %% own", own)
	f := figure{section: section, name: name, unit: perSecond, good: more}
	f.goal = b.goal(map[int]float64{100: 50, 95: 5, 50: 1.3}[own])
	if own == 95 && !b.far {
		f.chart = "4 processes, 95 % own names"
	}
	rate := b.report.row(f)
	f = figure{section: section, name: name, unit: perSecond}
	f.name += ": relock without WithKeep"
	without := b.report.row(f)
	server := figure{section: section, name: name + ": server time of each", unit: nanoseconds, good: less}
	return localityRows{rate, b.report.row(server), without}
}

// localityOf measures one share. At first everybody visits all names: those that are not to be kept are known then. A
// pause would let relock forget that.
func (b *bench) localityOf(section string, own int, peers []*peer, rows localityRows) error {
	crew, plain := b.crew(section, lease), b.crew(section, lease)
	defer crew.end()
	defer plain.end()
	name := b.fresh("locality")
	return b.inTurns(b.sizes.locality.rounds, peers, func(p *peer, round int) error {
		if p.id == ours {
			n, _, err := b.roam(plain, p, name+"-plain", own, round, false)
			if err != nil {
				return err
			}
			if n > 0 {
				rows.without.add(p, n/b.sizes.locality.span.Seconds())
			}
		}
		n, cpu, err := b.roam(crew, p, name+"-"+p.id, own, round, true)
		if n > 0 {
			rows.rate.add(p, n/b.sizes.locality.span.Seconds())
			rows.server.add(p, cpu/n)
		}
		return err
	})
}

// roam has the workers of a peer roam for a slice of time. It returns how often they got a lock, and what that took the
// server, in nanoseconds.
func (b *bench) roam(crew *crew, p *peer, name string, own, round int, keep bool) (n, cpu float64, err error) {
	hands := crew.of(p, localityProcesses)
	if hands == nil {
		return 0, 0, nil
	}
	tasks := make([]*task, len(hands))
	z := b.sizes.locality
	begin := func() (all outcome, ok bool) {
		outs, ok := crew.all(p, hands, tasks)
		for i := range outs {
			all.add(&outs[i])
		}
		return all, ok
	}
	for i := range tasks {
		tasks[i] = &task{
			Do: "roam", Name: name, Own: numbered(name+"-own", i), To: z.names, Percent: own, Keep: keep, Limit: holdWithin, Stuck: b.sizes.stuck,
		}
	}
	if round == 0 {
		if _, ok := begin(); !ok {
			return 0, 0, nil
		}
	}
	for i := range tasks {
		tasks[i].Start, tasks[i].Span = startSoon(), z.span
	}
	before, err := b.srv.load()
	if err != nil {
		return 0, 0, err
	}
	all, ok := begin()
	after, err := b.srv.load()
	if !ok {
		return 0, 0, err
	}
	return float64(all.Counted), float64(after.since(before).cpu), err
}

// sweep makes the chart.
func (b *bench) sweep(own []int, all []localityRows, peers []*peer) lineChart {
	with, without := *peerByID(ours), *peerByID(ours)
	with.title, without.title, without.id = "relock, WithKeep", "relock without", "without"
	c := lineChart{title: "4 processes: share of the calls that are for a process's own names", deep: 1}
	for _, p := range peers {
		if p.id == ours {
			c.peers = append(c.peers, &with, &without)
		} else {
			c.peers = append(c.peers, p)
		}
	}
	rate, server := panel{title: "Lock+Unlock", unit: perSecond}, panel{title: "server time of each", unit: nanoseconds}
	for i, of := range slices.Backward(all) {
		label := fmt.Sprintf("%d %%", own[i])
		rate.labels, server.labels = append(rate.labels, label), append(server.labels, label)
		both := &row{of.rate.figure, map[string][]float64{"without": of.without.samples[ours]}}
		maps.Copy(both.samples, of.rate.samples)
		rate.rows, server.rows = append(rate.rows, both), append(server.rows, of.server)
	}
	c.panels = []panel{rate, server}
	return c
}
