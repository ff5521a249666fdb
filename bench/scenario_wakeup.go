package main

import (
	"math/rand/v2"
	"time"
)

// settle is how long a waiter has to get to where it waits before it is woken.
const settle = 20 * time.Millisecond

// wakeUp: one process waits for a lock that another one unlocks. It is the time from
// the call of Unlock in the one to the return of Lock in the other.
func (b *bench) wakeUp() error {
	section := b.section("wake-up of another process")
	b.report.remark(section, "from the call of Unlock in one process to the return of Lock in another")
	crew := b.crew(section, lease)
	defer crew.end()
	p50f := figure{section: section, name: "p50", unit: nanoseconds, good: less, goal: b.goal(2)}
	if !b.far {
		p50f.chart = "wake-up across processes, p50"
	}
	p50 := b.report.row(p50f)
	p99 := b.report.row(figure{section: section, name: "p99", unit: nanoseconds, good: less})
	pooled := make(map[string][]int64)
	peers := b.peers(true)
	names := make(map[string]string)
	err := b.inTurns(b.sizes.rounds, peers, func(p *peer, round int) error {
		if names[p.id] == "" {
			names[p.id] = b.fresh("wake-up")
		}
		for i := range b.sizes.wakeUps {
			took, ok := b.wakeOnce(crew, p, names[p.id])
			if !ok {
				names[p.id] = b.fresh("wake-up") // the old one may be locked
				continue
			}
			if round > 0 || i > 0 { // the first one is to warm up
				pooled[p.id] = append(pooled[p.id], took)
			}
		}
		return nil
	})
	for _, p := range peers {
		if took := pooled[p.id]; len(took) > 0 {
			p50.add(p, float64(percentile(took, 50)))
			p99.add(p, float64(percentile(took, 99)))
		}
	}
	return err
}

func (b *bench) wakeOnce(crew *crew, p *peer, name string) (took int64, ok bool) {
	hands := crew.of(p, 2)
	if hands == nil {
		return 0, false
	}
	holder, waiter := hands[0], hands[1]
	lock := &task{Do: "lock", Name: name, Stuck: b.sizes.stuck, Limit: time.Second}
	if out, ok := crew.do(p, holder, lock); !ok || out.Acquired == 0 {
		return 0, false
	}
	wait := *lock
	wait.Limit += settle + p.poll // it cannot be stuck before it is woken
	if err := waiter.begin(&wait); err != nil {
		b.report.failed(crew.section, p, err)
		waiter.dead = err
		return 0, false
	}
	// So that unlocks fall anywhere between two looks of one that polls.
	time.Sleep(settle + rand.N(p.poll+time.Millisecond))
	freed, ok := crew.do(p, holder, &task{Do: "free", Name: name})
	got, err := waiter.answer(patience(&wait))
	if err != nil {
		b.report.failed(crew.section, p, err)
		return 0, false
	}
	b.report.outcome(crew.section, p, &got)
	if !ok || got.Acquired == 0 {
		return 0, false
	}
	if _, ok := crew.do(p, waiter, &task{Do: "free", Name: name}); !ok {
		return 0, false
	}
	return got.At - freed.At, true
}
