package sim_test

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A plan is what happens in a world. It depends on the seed alone.
type plan struct {
	seed    uint64
	row     *row
	names   []string        // of the locks
	enough  int             // holds after which the actors stop; 0: they do all
	servers int             // 3 if the world has Redlocks
	skews   []time.Duration // by which the clocks of servers are wrong; nil: they are right
	procs   []procPlan
	actors  []actorPlan
	faults  []fault       // in order of time
	lease   time.Duration // the longest of any process
	slowest time.Duration // delay of any process
	keeps   bool          // some locks are kept, and each process loses the first message that recalls one
}

type procPlan struct {
	delay, lease, tenure time.Duration
}

// An actor is a goroutine of a process.
type actorPlan struct {
	proc int
	ops  []op
}

// An op is one Lock or TryLock, its section, and its Unlock.
type op struct {
	parts    []part        // more than one: a Group
	pause    time.Duration // before it
	try      bool
	patience time.Duration // of Lock's context; 0: no end
	section  time.Duration
	heeds    bool // the section ends with a loss
	owned    bool // under a context with an owner
	reenter  bool // locks again within the section
	acquires bool // by Acquire, not by Lock
	handsOff bool // another process adopts what it has, and unlocks
	reads    bool // a writer reads as well, and reads on when it has unlocked
	lease    time.Duration
	fixed    time.Duration
	maxHold  time.Duration
	keep     time.Duration // WithKeep, of a Mutex
}

// A part is a lock, or one member of a Group.
type part struct {
	kind kind
	name string
}

type kind string

const (
	mutex   kind = "Mutex"
	fair    kind = "FairMutex"
	writer  kind = "writer"
	reader  kind = "reader"
	redlock kind = "Redlock"
)

// excludes reports whether two parts exclude each other.
func (p part) excludes(q part) bool {
	return p.name == q.name && (p.kind != reader || q.kind != reader)
}

// themes are the locks that a world has. What comes first is used most.
var themes = [][][]part{
	{{{mutex, "a"}}},
	{{{fair, "a"}}},
	{{{mutex, "a"}}, {{fair, "a"}}},
	{{{reader, "rw"}}, {{writer, "rw"}}},
	{{{reader, "rw"}}, {{writer, "rw"}}},
	{
		{{mutex, "a"}, {mutex, "b"}}, {{mutex, "a"}}, {{fair, "b"}}, {{mutex, "b"}, {mutex, "c"}}, {{writer, "rw"}},
		{{fair, "b"}, {writer, "rw"}}, {{mutex, "a"}, {reader, "rw"}},
	},
	{{{redlock, "red"}}},
	{{{mutex, "a"}}, {{redlock, "red"}}, {{reader, "rw"}}, {{writer, "rw"}}, {{fair, "b"}}},
}

func newPlan(seed uint64) *plan {
	return planOf(seed, rand.New(rand.NewPCG(seed, 0x5e1f)))
}

// planOf returns the plan that r chooses.
func planOf(seed uint64, r *rand.Rand) *plan {
	p := &plan{seed: seed, servers: 1, row: rowOf(r)}
	theme := pick(r, p.row.themes...)
	for _, part := range slices.Concat(theme...) {
		if part.kind == redlock {
			p.servers = 3
		}
		if !slices.Contains(p.names, part.name) {
			p.names = append(p.names, part.name)
		}
	}
	for range p.servers {
		if p.row.skewed {
			p.skews = append(p.skews, upTo(r, 20*time.Minute)-10*time.Minute)
		}
	}
	most := 7 / p.servers // a process has a session on each
	for range 2 + min(r.IntN(most), r.IntN(most)) {
		proc := procPlan{
			lease:  pick(r, p.row.leases...),
			tenure: pick(r, 0, 10*time.Millisecond, 200*time.Millisecond),
		}
		if chance(r, 0.7) {
			proc.delay = upTo(r, 20*time.Millisecond)
			if p.servers > 1 {
				proc.delay /= 5 // a Redlock gives a server little time to answer
			}
		}
		p.procs = append(p.procs, proc)
	}
	p.row.act(r, p, theme)
	if p.enough == 0 && chance(r, 0.4) {
		keepSome(r, p)
	}
	for _, proc := range p.procs {
		p.lease, p.slowest = max(p.lease, proc.lease), max(p.slowest, proc.delay)
	}
	p.faults = append(p.faults, newFaults(r, p, theme)...)
	return p
}

// keepSome has most calls of Mutexes keep their locks.
func keepSome(r *rand.Rand, p *plan) {
	for _, a := range p.actors {
		for i := range a.ops {
			if o := &a.ops[i]; len(o.parts) == 1 && o.parts[0].kind == mutex && o.fixed+o.maxHold == 0 && chance(r, 0.8) {
				o.keep = 100*time.Millisecond + upTo(r, pick(r, time.Second, 15*time.Second))
				p.keeps = true
			}
		}
	}
}

// actAnyhow gives actors a few ops each.
func actAnyhow(r *rand.Rand, p *plan, theme [][]part) {
	left := 12 + r.IntN(10) // ops
	for i := 0; left > 0; i++ {
		actor := actorPlan{proc: i % len(p.procs)}
		for range min(left, 1+r.IntN(4)) {
			actor.ops = append(actor.ops, newOp(r, theme, p.procs[actor.proc].lease))
			left--
		}
		p.actors = append(p.actors, actor)
	}
}

func newOp(r *rand.Rand, theme [][]part, lease time.Duration) op {
	o := op{
		parts: theme[min(r.IntN(len(theme)), r.IntN(len(theme)))],
		pause: upTo(r, pick(r, 50*time.Millisecond, time.Second)),
		heeds: chance(r, 0.5),
		owned: chance(r, 0.4),
	}
	switch n := r.IntN(100); {
	case n < 50:
		o.section = upTo(r, 30*time.Millisecond)
	case n < 90:
		o.section = upTo(r, time.Second)
	default:
		o.section = lease/2 + upTo(r, lease)
	}
	switch n := r.IntN(100); {
	case n < 20:
		o.try = true
	case n < 50:
		o.patience = upTo(r, pick(r, 50*time.Millisecond, 2*time.Second))
	}
	if len(o.parts) == 1 && o.parts[0].kind != redlock {
		switch n := r.IntN(100); {
		case n < 10:
			o.fixed = 100*time.Millisecond + upTo(r, lease)
		case n < 15:
			o.maxHold = 100*time.Millisecond + upTo(r, lease)
		case n < 20:
			o.lease = 500*time.Millisecond + upTo(r, lease)
		}
	}
	if o.owned {
		o.reenter = chance(r, 0.4)
		o.reads = len(o.parts) == 1 && o.parts[0].kind == writer && chance(r, 0.5)
	}
	o.handsOff = len(o.parts) == 1 && o.parts[0].kind == mutex && chance(r, 0.15)
	o.acquires = o.handsOff || chance(r, 0.5)
	return o
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// upTo returns a time of at least 1 µs, so that few times are equal.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(1+r.Int64N(int64(d/time.Microsecond))) * time.Microsecond
}

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
	skewed bool                              // the clocks of servers differ by minutes
}

// rows are the kinds of worlds. The first two have everything, without and with the faults of the
// others, of which each is about one thing, so that no other fault excuses what it does.
var rows = []*row{
	{
		name: "plain", share: 54, themes: themes, leases: usual, act: actAnyhow, calm: 0.25, most: 6,
		kinds: [][]faultKind{plain, plain, plain, risky, risky},
	},
	{
		name: "any", share: 8, themes: themes, leases: usual, act: actAnyhow, most: 6,
		kinds: [][]faultKind{slices.Concat(plain, special)},
	},
	{
		name: "away", share: 7, themes: oneServer, act: actForLong, most: 3, brief: true,
		leases: []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, 10 * time.Minute},
		kinds:  [][]faultKind{{away}, append([]faultKind{away, away, away}, outages...)},
	},
	{name: "crowd", share: 6, themes: single, leases: usual, act: actInACrowd, calm: 1},
	{
		name: "hostile", share: 6, themes: oneServer, leases: usual, act: actAnyhow, most: 4,
		kinds: [][]faultKind{{forge}, {corrupt}, {forge, corrupt, damage}},
	},
	{
		name: "forbidden", share: 6, themes: many, act: actOnMany, most: 2,
		leases: []time.Duration{time.Second, 3 * time.Second},
		kinds:  [][]faultKind{{forbid}, {damage}},
	},
	{name: "shares", share: 2, themes: single, leases: usual, act: actInARace, calm: 1},
	{
		name: "clock", share: 6, themes: oneServer, act: actForLong, most: 3,
		leases: []time.Duration{10 * time.Second, 30 * time.Second},
		kinds:  [][]faultKind{{clockForward}},
	},
	{
		name: "majorities", share: 5, themes: themes[6:7], leases: usual, act: actAnyhow, most: 15, skewed: true,
		kinds: [][]faultKind{{cutBoth}, {cutUp, cutDown, cutBoth, disconnect, dropReplies, slow, restart}},
	},
}

var (
	usual     = []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} // leases
	risky     = slices.Concat(plain, lossy)
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
		proc := procPlan{delay: delay, lease: 30 * time.Second, tenure: pick(r, 0, 10*time.Millisecond)}
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
	holds := slices.DeleteFunc(slices.Clone(w.calls), func(c *call) bool { return !c.held })
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

// grantTimeout is how long a lock is kept at most for a waiter that does not come.
const grantTimeout = 5 * time.Second

// handOver is how long a lock may be on its way from one process to the next.
const handOver = 300 * time.Millisecond

// checkCrowd checks that a process that stops keeps the others waiting for its lease and one grant
// timeout, no matter how many of its goroutines wait. A reader of it, also one that is only granted
// the lock, counts for as long as the longest lease of those that it reads with; and since nobody
// looks for dead readers, its writers cost a grant timeout of their own.
func (w *world) checkCrowd() {
	if w.plan.row.name != "crowd" {
		return
	}
	for _, t := range w.troubles {
		to := w.took
		if t.kind == cutBoth {
			to = t.to
		}
		for _, name := range w.plan.names {
			lease, granted := w.procs[t.proc].lease, grantTimeout
			if slices.ContainsFunc(w.calls, func(c *call) bool { return c.parts[0] == part{reader, name} }) {
				lease, granted = w.plan.lease, max(w.plan.lease, grantTimeout)+grantTimeout
			}
			if d, most := w.idle(name, t.proc, t.from, to), lease+granted+time.Second; d > most {
				w.fail("what waits in a stopped process costs one grant timeout in all", "%v without a holder of %s, while others waited", d, name)
			}
		}
	}
}

// idle returns for how long, within a span, processes waited for a lock that none of them held, except a
// stopped one. It does not count hand-overs.
func (w *world) idle(name string, stopped int, from, to time.Duration) (sum time.Duration) {
	const step = 5 * time.Millisecond
	begun := from
	for at := from; at < to; at += step {
		waits, held := false, false
		for _, c := range w.calls {
			if c.p.id != stopped && c.parts[0].name == name && c.called.at <= at {
				returned := c.returned.seq != 0 && c.returned.at <= at
				waits = waits || !returned
				held = held || returned && c.held && (c.last().seq == 0 || at < c.last().at)
			}
		}
		if !waits || held {
			begun = at
		} else if at-begun > handOver {
			sum += step
		}
	}
	return sum
}
