package main

import (
	"fmt"
	"maps"
	"slices"
)

const (
	localityProcesses = 4
	visitsOneIn       = 100 // calls for own names, if others want these now and then

	// The ids of relock's further lines.
	relockWithout = "relock-without"
	relockWanted  = "relock-wanted"
)

// localityRows are the figures for one share of calls for one's own names. without is relock's rate
// without WithKeep, and wanted that with it, while another process wants own names now and then.
type localityRows struct{ rate, server, without, wanted *row }

// locality: processes lock names of their own and names that all of them use, each call one at
// random. What processes use again they may keep. It is the sweep of ALock (arXiv 2404.17980).
func (b *bench) locality() error {
	section := b.section("locality")
	z := b.sizes.locality
	b.report.remark(section, fmt.Sprintf("%d processes of one goroutine, each with %d names of its own, and as many that all use; "+
		"so many per cent of the calls are for one's own. relock with WithKeep(1m), unless it says otherwise; "+
		"\"wanted\": one of %d calls for own names is for the next process's own instead", localityProcesses, z.names, visitsOneIn))
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
	f.name = name + ": relock without WithKeep"
	without := b.report.row(f)
	f.name = name + ": relock, own names wanted"
	wanted := b.report.row(f)
	server := figure{section: section, name: name + ": server time of each", unit: nanoseconds, good: less}
	return localityRows{rate, b.report.row(server), without, wanted}
}

// localityOf measures one share. At first everybody visits all names: those that are not to be kept are known then. A
// pause would let relock forget that.
func (b *bench) localityOf(section string, own int, peers []*peer, rows localityRows) error {
	main, plain, visited := b.crew(section, lease), b.crew(section, lease), b.crew(section, lease)
	defer main.end()
	defer plain.end()
	defer visited.end()
	name := b.fresh("locality")
	variants := []struct {
		crew *crew
		task task
		row  *row
	}{
		{plain, task{Name: name + "-plain", Percent: own}, rows.without},
		{visited, task{Name: name + "-visited", Percent: own, Keep: true, Visits: visitsOneIn}, rows.wanted},
	}
	return b.inTurns(b.sizes.locality.rounds, peers, func(p *peer, round int) error {
		if p.id == ours {
			for _, v := range variants {
				n, _, err := b.roam(v.crew, p, v.task, round)
				if err != nil {
					return err
				}
				if n > 0 {
					v.row.add(p, n/b.sizes.locality.span.Seconds())
				}
			}
		}
		n, cpu, err := b.roam(main, p, task{Name: name + "-" + p.id, Percent: own, Keep: true}, round)
		if n > 0 {
			rows.rate.add(p, n/b.sizes.locality.span.Seconds())
			rows.server.add(p, cpu/n)
		}
		return err
	})
}

// roam has the workers of a peer roam for a slice of time, as t says. It returns how often they got
// a lock, and what that took the server, in nanoseconds.
func (b *bench) roam(crew *crew, p *peer, t task, round int) (n, cpu float64, err error) {
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
	t.Do, t.To, t.Limit, t.Stuck = "roam", z.names, holdWithin, b.sizes.stuck
	for i := range tasks {
		tasks[i] = new(t)
		tasks[i].Own = numbered(t.Name+"-own", i)
		tasks[i].Foreign = numbered(t.Name+"-own", (i+1)%localityProcesses)
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
	with, wanted, without := *peerByID(ours), *peerByID(ours), *peerByID(ours)
	with.title, with.id = "relock, WithKeep", ours
	wanted.title, wanted.id = "relock, WithKeep, names wanted", relockWanted
	without.title, without.id = "relock without", relockWithout
	c := lineChart{
		title: "The more a process locks names of its own, the more WithKeep saves", deep: 1,
		caption: []string{
			fmt.Sprintf("From left to right: the share of calls for a process's own names, of %d processes. "+
				"The other calls are for names that all of them lock.", localityProcesses),
			fmt.Sprintf("No other process wants own names, except in the line \"names wanted\", "+
				"where one of %d calls for own names is for another process's.", visitsOneIn),
		},
	}
	for _, p := range peers {
		if p.id == ours {
			c.peers = append(c.peers, &with, &wanted, &without)
		} else {
			c.peers = append(c.peers, p)
		}
	}
	rate, server := panel{title: "Lock+Unlock", unit: perSecond}, panel{title: "server time of each", unit: nanoseconds}
	for i, of := range slices.Backward(all) {
		label := fmt.Sprintf("%d %%", own[i])
		rate.labels, server.labels = append(rate.labels, label), append(server.labels, label)
		both := &row{of.rate.figure, map[string][]float64{
			relockWithout: of.without.samples[ours], relockWanted: of.wanted.samples[ours],
		}}
		maps.Copy(both.samples, of.rate.samples)
		rate.rows, server.rows = append(rate.rows, both), append(server.rows, of.server)
	}
	c.panels = []panel{rate, server}
	return c
}
