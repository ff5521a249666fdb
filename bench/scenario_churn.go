package main

import "fmt"

// churning: every name is locked and unlocked once, and what is left of that is
// counted, in Redis and in the process.
func (b *bench) churning() error {
	section := b.section(fmt.Sprintf("%d distinct names, once each", b.sizes.churn))
	b.report.remark(section, "by 64 goroutines; what is left was counted right afterwards")
	crew := b.crew(section, lease)
	defer crew.end()
	line := func(name string, u unit, good direction, of func([]float64) float64) *row {
		return b.report.row(figure{section: section, name: name, unit: u, good: good, of: of})
	}
	rate := line("Lock+Unlock", perSecond, more, median)
	keys := line("keys left in Redis", number, less, sum)
	memory := line("memory left in Redis", byteSize, less, sum)
	heap := line("memory left in the process", byteSize, less, sum)
	goroutines := line("goroutines left", number, less, sum)
	peers := b.peers(false)
	empty := make(map[string]outcome)
	part := b.sizes.churn / b.sizes.churnParts
	err := b.inTurns(b.sizes.churnParts, peers, func(p *peer, round int) error {
		hands := crew.of(p, 1)
		if hands == nil {
			return nil
		}
		if _, ok := empty[p.id]; !ok {
			crew.do(p, hands[0], &task{Do: "churn", Name: b.fresh("warm"), To: 4 * holdGoroutines, Goroutines: holdGoroutines})
			out, ok := crew.do(p, hands[0], &task{Do: "state"})
			if !ok {
				return nil
			}
			empty[p.id] = out
		}
		before, err := b.srv.load()
		if err != nil {
			return err
		}
		start := monotonic()
		out, ok := crew.do(p, hands[0], &task{
			Do: "churn", Name: b.fresh("churn"), To: part, Goroutines: holdGoroutines, Limit: holdWithin,
		})
		took := float64(monotonic()-start) / 1e9
		after, err := b.srv.load()
		if err != nil || !ok {
			return err
		}
		rate.add(p, float64(out.Acquired)/took)
		keys.add(p, float64(after.since(before).keys))
		memory.add(p, float64(after.since(before).memory))
		return nil
	})
	for _, p := range peers {
		was, ok := empty[p.id]
		if !ok {
			continue
		}
		if out, ok := crew.do(p, crew.hands[p.id][0], &task{Do: "state"}); ok {
			heap.add(p, float64(out.Has.Memory-was.Has.Memory))
			goroutines.add(p, float64(out.Has.Goroutines-was.Has.Goroutines))
		}
	}
	return err
}
