package sim_test

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A row is a kind of world.
type row struct {
	name   string
	share  int // of all worlds
	themes [][][]part
	leases []time.Duration                   // of the sessions
	act    func(*rand.Rand, *plan, [][]part) // adds the actors
	calm   float64                           // the probability that there are no faults
	kinds  [][]faultKind                     // a world has one of these lists
	most   int                               // faults
	brief  bool                              // all outages are shorter than half a lease
}

const second = time.Second

// rows are the kinds of worlds. The first two have everything, without and with the faults of the
// others, of which each is about one thing, so that no other fault excuses what it does.
var rows = []*row{
	{name: "plain", share: 59, act: actAnyhow, calm: 0.25, kinds: [][]faultKind{plain, plain, plain, risky, risky}, most: 6},
	{name: "any", share: 8, act: actAnyhow, kinds: [][]faultKind{slices.Concat(plain, special)}, most: 6},
	{
		name: "away", share: 7, themes: oneServer, act: actForLong, most: 3, brief: true,
		leases: []time.Duration{second, 3 * second, 10 * second, 30 * second, 10 * time.Minute},
		kinds:  [][]faultKind{{away}, append([]faultKind{away, away, away}, outages...)},
	},
	{name: "crowd", share: 6, themes: single, act: actInACrowd, calm: 1},
	{
		name: "hostile", share: 6, themes: oneServer, act: actAnyhow, most: 4,
		kinds: [][]faultKind{{forge}, {corrupt}, {forge, corrupt, damage}},
	},
	{
		name: "forbidden", share: 6, themes: many, act: actOnMany, most: 2,
		leases: []time.Duration{second, 3 * second},
		kinds:  [][]faultKind{{forbid}, {damage}},
	},
	{name: "shares", share: 2, themes: single, act: actInARace, calm: 1},
	{
		name: "clock", share: 6, themes: oneServer, act: actForLong, most: 3,
		leases: []time.Duration{10 * second, 30 * second},
		kinds:  [][]faultKind{{clockForward}},
	},
}

var (
	plain   = span(slow, vanishSilently)
	special = span(away, forbid)
	risky   = slices.Concat(plain, span(firstLossy, force))
	outages = []faultKind{cutUp, cutDown, cutBoth, disconnect, restart}
	usual   = []time.Duration{second, 3 * second, 10 * second} // leases
)

func span(from, to faultKind) (kinds []faultKind) {
	for k := from; k <= to; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

var (
	oneServer = themes[:6]
	single    = [][][]part{
		{{{mutex, "a"}}},
		{{{fair, "a"}}},
		{{{mutex, "a"}}, {{fair, "a"}}},
		{{{writer, "rw"}}},
		{{{reader, "rw"}}, {{writer, "rw"}}},
	}
	many = [][][]part{
		{{{mutex, "a"}}, {{mutex, "b"}}, {{fair, "c"}}, {{mutex, "d"}}, {{fair, "e"}}},
		{{{fair, "a"}}, {{fair, "b"}}, {{fair, "c"}}, {{fair, "d"}}},
	}
)

func rowOf(r *rand.Rand) *row {
	n := r.IntN(100)
	for _, row := range rows {
		if n -= row.share; n < 0 {
			return row
		}
	}
	panic("the shares are less than 100")
}

// actForLong gives some ops sections of about a lease, and patience with them.
func actForLong(r *rand.Rand, p *plan, theme [][]part) {
	actAnyhow(r, p, theme)
	for _, a := range p.actors {
		for i := range a.ops {
			long := min(2*p.procs[a.proc].lease, 15*time.Second)
			if a.ops[i].section = min(a.ops[i].section, long); chance(r, 0.5) {
				a.ops[i].section = upTo(r, long)
			}
			if chance(r, 0.7) {
				a.ops[i].patience = 0
			}
		}
	}
}

// actOnMany lets few processes hold, and wait for, several locks each.
func actOnMany(r *rand.Rand, p *plan, theme [][]part) {
	p.procs = p.procs[:2]
	actForLong(r, p, theme)
}

// actInACrowd gives the first process many waiters, for whom others wait when it stops.
func actInACrowd(r *rand.Rand, p *plan, theme [][]part) {
	wait := func(proc, ops int, section time.Duration) {
		a := actorPlan{proc: proc}
		for range ops {
			o := op{parts: pick(r, theme...), pause: upTo(r, 700*time.Millisecond), section: upTo(r, section)}
			a.ops = append(a.ops, o)
		}
		p.actors = append(p.actors, a)
	}
	for range pick(r, 1, 1, 1, 10, 10, 10, 10, 100) {
		wait(0, 1, 300*time.Millisecond)
	}
	for i := range 3 + r.IntN(4) {
		wait(1+i%(len(p.procs)-1), 1+r.IntN(3), time.Second)
	}
	f := fault{kind: pick(r, vanish, vanishSilently, vanishSilently, cutBoth), at: upTo(r, time.Second)}
	if f.kind == cutBoth {
		f.lasts = upTo(r, time.Minute)
	}
	p.faults = append(p.faults, f)
}

// actInARace lets processes at distances of 0, 4 and 20 ms, and one at any, up to 40 ms, lock one name again and again. Only the
// near ones have leases that end at once.
func actInARace(r *rand.Rand, p *plan, theme [][]part) {
	p.procs = nil
	for _, ms := range []time.Duration{0, 4, 20, pick[time.Duration](r, 0, 4, 20, 40)} {
		delay := ms * time.Millisecond
		proc := procPlan{delay: delay, lease: 30 * second, tenure: pick(r, 0, 10*time.Millisecond)}
		if delay < 20*time.Millisecond && chance(r, 0.6) {
			proc.lease = 60 * time.Millisecond
		}
		p.procs = append(p.procs, proc)
	}
	p.enough = 20 * len(p.procs)
	parts := pick(r, theme...) // all of one side: readers do not share with writers
	if parts[0].kind == reader {
		parts = theme[1]
	}
	for i := range p.procs {
		a := actorPlan{proc: i}
		for range p.enough {
			section := 5*time.Millisecond + upTo(r, 10*time.Millisecond)
			a.ops = append(a.ops, op{parts: parts, pause: upTo(r, time.Millisecond), section: section})
		}
		p.actors = append(p.actors, a)
	}
}

// checkShares checks that no process that contended had less than a tenth of an even share.
func (w *world) checkShares() {
	holds := slices.Clone(w.calls)
	holds = slices.DeleteFunc(holds, func(c *call) bool { return !c.held })
	if len(holds) < w.plan.enough {
		return
	}
	slices.SortFunc(holds, func(c, d *call) int { return int(c.returned.seq - d.returned.seq) })
	turns := make(map[int]int)
	for _, c := range w.calls {
		turns[c.p.id] = 0
	}
	for _, c := range holds[:w.plan.enough] {
		turns[c.p.id]++
	}
	for id, n := range turns {
		if n < w.plan.enough/len(w.procs)/10 {
			w.fail("no process has less than a tenth of an even share", "%d: %v of %d", id, turns, w.plan.enough)
		}
	}
}

// brief returns how long an outage lasts at most half a lease of some process.
func brief(r *rand.Rand, p *plan) time.Duration {
	return upTo(r, min(pick(r, p.procs...).lease/100*49, 20*time.Second))
}

// hadEnough reports whether a race is over.
func (w *world) hadEnough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan.enough > 0 && w.holds >= w.plan.enough
}
