package main

// uncontended: one goroutine locks and unlocks one name that nobody else wants.
func (b *bench) uncontended() error {
	for _, c := range []struct {
		title  string
		cancel bool
		chart  string
	}{
		{"uncontended, context.Background", false, "uncontended, p50"},
		{"uncontended, a context that can be cancelled", true, ""},
	} {
		section := b.section(c.title)
		b.report.remark(section, "one goroutine locks and unlocks one name. Processor time of the server without that of the worker.")
		if b.far {
			c.chart = ""
		}
		if err := b.pairsOf(section, c.cancel, c.chart); err != nil {
			return err
		}
	}
	return nil
}

// countCommands counts the commands of a pair on a connection that knows the scripts.
func (b *bench) countCommands(commands *row, crew *crew, cancel bool) error {
	const countPairs = 20
	return b.inTurns(1, b.peers(false), func(p *peer, _ int) error {
		hands := crew.of(p, 1)
		if hands == nil {
			return nil
		}
		name := b.fresh("uncontended")
		warm := &task{Do: "pairs", Name: name, Pairs: b.sizes.pairs, Cancel: cancel}
		if _, ok := crew.do(p, hands[0], warm); !ok {
			return nil
		}
		n, err := b.srv.commands(func() error {
			crew.do(p, hands[0], &task{Do: "pairs", Name: name, Pairs: countPairs, Cancel: cancel})
			return nil
		})
		commands.add(p, float64(n)/countPairs)
		return err
	})
}

func (b *bench) pairsOf(section string, cancel bool, chart string) error {
	crew := b.crew(section, lease)
	defer crew.end()
	line := func(name string, u unit, good direction) *row {
		return b.report.row(figure{section: section, name: name, unit: u, good: good})
	}
	p50 := b.report.row(figure{
		section: section, name: "Lock+Unlock, p50", unit: nanoseconds, good: less, chart: chart,
		goal: b.goal(1), renewing: true,
	})
	p99 := line("Lock+Unlock, p99", nanoseconds, less)
	allocs := line("allocations", number, less)
	allocated := line("bytes allocated", byteSize, less)
	client := line("processor time, client", nanoseconds, less)
	serverCPU := line("processor time, server", nanoseconds, less)
	commands := line("commands", number, less)

	peers := b.peers(false)
	err := b.countCommands(commands, crew, cancel)
	if err != nil {
		return err
	}
	return b.inTurns(3*b.sizes.rounds, peers, func(p *peer, _ int) error {
		hands := crew.of(p, 1)
		if hands == nil {
			return nil
		}
		before, err := b.srv.load()
		if err != nil {
			return err
		}
		n := float64(b.sizes.pairs)
		out, ok := crew.do(p, hands[0], &task{Do: "pairs", Name: b.fresh("uncontended"), Pairs: b.sizes.pairs, Cancel: cancel})
		after, err := b.srv.load()
		if err != nil || !ok {
			return err
		}
		p50.add(p, float64(percentile(out.Took, 50)))
		p99.add(p, float64(percentile(out.Took, 99)))
		allocs.add(p, float64(out.Used.Allocs)/n)
		allocated.add(p, float64(out.Used.AllocBytes)/n)
		client.add(p, float64(out.Used.CPU)/n)
		serverCPU.add(p, float64(after.since(before).cpu)/n)
		return nil
	})
}
