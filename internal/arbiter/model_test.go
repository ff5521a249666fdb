package arbiter_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// TestModel lets the goroutines of two processes do with one lock what they may, in any order,
// with every step of a conversation with Redis on its own. Every answer of the table must be what the
// model says; who waits is let in in order of arrival; writers exclude everybody else for as long as
// they are certain; nothing is released that somebody holds; and in the end everybody gets in,
// and nothing is left.
func TestModel(t *testing.T) {
	for _, k := range []kind{
		{name: "mutex", plain: true}, {name: "fair", open: true}, {name: "read-write", rw: true},
		{name: "semaphore", open: true, many: true},
	} {
		t.Run(k.name, func(t *testing.T) {
			for range 4 { // times 100, unless -rapid.checks says otherwise
				rapid.Check(t, func(r *rapid.T) {
					m := newModel(r, k)
					for range rapid.IntRange(1, 150).Draw(r, "steps") {
						m.act()
						m.check()
					}
					m.drain()
				})
			}
		})
	}
}

type kind struct {
	name     string
	plain    bool // a lock of these is kept between uses, and handed off to other processes
	open, rw bool
	many     bool // its read side alone, of which each call has one of two permits
}

// model is one lock in one Redis, and the processes that use it.
type model struct {
	kind
	r         *rapid.T
	redis     redis
	processes []*process
	tickets   []*lease // that holds were handed off to
	willing   bool     // Redis grants whatever it may
}

// process is the table of a process, and what must be true of it.
type process struct {
	*world
	m         *model
	handles   [2][]*handle        // by side
	owners    []*owner            // nil is the handle's
	of        map[*owner]*handle  // of which handle the others are
	calls     []*step             // that have not come to their end, in order of arrival
	holds     []*held             // that await an unlock
	fixed     map[*handle]bool    // its leases are not passed on or shared
	took      map[*handle][]*hold // in the order in which they were taken last
	releasing *lease              // the exclusive lease whose release is under way
	kept      *lease              // that nobody uses
	handed    map[*lease]*lease   // to which ticket a lease goes instead of being released
	shared    *lease              // that readers share
	joinUntil int64
	ending    []*lease // to be released in Redis
}

// held is a hold that awaits an unlock.
type held struct {
	*hold
	count    int
	lost     bool
	keeps    bool // its lease may be kept after it
	recalled bool // somebody else waits for it
	done     <-chan struct{}
	told     []arbiter.State // by OnEnd
}

// step is a call that has not come to its end.
type step struct {
	*waiter
	wait    bool
	at      phase
	seen    bool  // its signal
	apart   bool  // it asks for itself: a reader, or who adopts
	granted *held // that it was let in with
	st      standing
	lease   *lease // asked for, or asked about
	ticket  *lease // to adopt
	reply   reply
	refused bool // its last answer
}

func (c *step) Side() arbiter.Side { return c.Via.Side() }

type phase uint8

const (
	inQueue phase = iota
	asking        // between two requests
	sent          // Redis has not executed the request yet
	replied       // it has
)

func newModel(r *rapid.T, k kind) *model {
	m := &model{kind: k, r: r, redis: redis{readers: make(map[*lease]bool), gone: make(map[*lease]bool)}}
	for range 2 {
		p := &process{world: newWorld(), m: m, took: make(map[*handle][]*hold), fixed: make(map[*handle]bool),
			handed: make(map[*lease]*lease), of: make(map[*owner]*handle)}
		p.Open = k.open
		p.Expire = func(_ string, l *lease) { p.lose(l) }
		p.Gone = p.Expire
		p.owners = []*owner{new(owner), nil, new(owner)}
		for side := range p.handles {
			s := arbiter.Side(side)
			p.handles[side] = []*handle{p.handle(s), p.handle(s)}
			p.fixed[p.handles[side][1]] = m.chance(2)
			for _, v := range p.handles[side] {
				v.Many = k.many
			}
		}
		m.processes = append(m.processes, p)
	}
	return m
}

func pick[T any](m *model, from []T, what string) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(m.r, what)]
}

func (m *model) chance(n int) bool { return rapid.IntRange(0, n-1).Draw(m.r, "chance") == 0 }

// What the model knows of a process.

func (p *process) certain(l *lease) bool { return p.now.Load() < l.until.Load() }

// live returns the live hold of o on a side, of anybody if o is nil; nil if there is none.
func (p *process) live(o *owner, side arbiter.Side) *held {
	for _, h := range p.holds {
		if !h.lost && h.Side() == side && (o == nil || h.Owner == o) {
			return h
		}
	}
	return nil
}

// lostOf returns the hold that o lost on a side, nil if there is none.
func (p *process) lostOf(o *owner, side arbiter.Side) *held {
	for _, h := range p.holds {
		if h.lost && h.Owner == o && h.Side() == side {
			return h
		}
	}
	return nil
}

// newest returns the hold of o on a side that awaits its unlock: the live one, else the one that was lost.
func (p *process) newest(o *owner, side arbiter.Side) *held {
	return cmp.Or(p.live(o, side), p.lostOf(o, side))
}

// mustUnlock reports whether o, or another call through its handle, has lost something that awaits its unlock.
func (p *process) mustUnlock(o *owner) bool {
	return p.lostOf(o, read) != nil || p.lostOf(o, write) != nil || p.owed(p.of[o]) != nil
}

func (p *process) eligible(c *step) bool { return !p.mustUnlock(c.Owner) }

// reenters reports whether c enters a hold of its owner again, who has lost none.
func (p *process) reenters(c *step, h *held) bool {
	return h != nil && h.Owner == c.Owner && !p.ofHandle(c.Owner) && p.eligible(c)
}

func (p *process) ofHandle(o *owner) bool { return p.of[o] != nil }

// ownerOf returns the owner of a call through via: o, or that of the handle if o is nil.
func (p *process) ownerOf(via *handle, o *owner) *owner {
	if o == nil {
		o = via.OwnerOf(background)
		p.of[o] = via
	}
	return o
}

// queue returns the calls that wait for a side in this process.
func (p *process) queue(side arbiter.Side) (q []*step) {
	for _, c := range p.calls {
		if c.at == inQueue && !c.seen && c.Side() == side {
			q = append(q, c)
		}
	}
	return q
}

// contender returns the call that asks Redis for a side, nil if none does.
func (p *process) contender(side arbiter.Side) *step {
	for _, c := range p.calls {
		if c.Side() == side && !c.apart && c.granted == nil && (c.at != inQueue || c.seen) {
			return c
		}
	}
	return nil
}

// unread reports whether there is neither a read hold nor a call for one, or one that adopts.
func (p *process) unread() bool {
	asks := func(c *step) bool { return (c.Side() == read || c.apart) && c.granted == nil }
	return p.live(nil, read) == nil && !slices.ContainsFunc(p.calls, asks)
}

// verdict says what Enter must answer.
func (p *process) verdict(c *step) arbiter.Verdict {
	if c.Side() == read {
		return p.readVerdict(c)
	}
	may, writer, inMemory := p.eligible(c), p.live(nil, write), c.wait && p.ofHandle(c.Owner)
	switch {
	case p.reenters(c, writer):
		return arbiter.Entered
	case !may && !inMemory:
		return arbiter.UnlockFirst
	case p.kept != nil && may && c.Passable && c.Class == 1 && p.kept.passes > 0 && p.certain(p.kept):
		return arbiter.Resumed
	case p.kept != nil:
		return arbiter.Stale
	case p.live(c.Owner, read) != nil:
		return arbiter.Upgrade
	case !c.wait && (p.live(nil, read) != nil || p.m.open && writer != nil):
		return arbiter.Busy
	case may && (p.m.open || writer == nil && p.releasing == nil && p.contender(write) == nil):
		return arbiter.Ask
	case !c.wait && !(p.releasing != nil && p.releasing.kept && p.contender(write) == nil && len(p.queue(write)) == 0):
		return arbiter.Busy
	}
	return arbiter.Queued
}

func (p *process) readVerdict(c *step) arbiter.Verdict {
	may, writer, inMemory := p.eligible(c), p.live(nil, write), c.wait && p.ofHandle(c.Owner)
	switch {
	case p.reenters(c, p.live(c.Owner, read)):
		return arbiter.Entered
	case p.mayJoin(c):
		return arbiter.Joined
	case !may && !inMemory:
		return arbiter.UnlockFirst
	case !c.wait && writer != nil && !p.reenters(c, writer):
		return arbiter.Busy
	case may && (!c.wait || !c.Passable || p.reenters(c, writer)):
		c.apart = true
		return arbiter.Ask
	case may && p.contender(read) == nil:
		return arbiter.Ask
	}
	return arbiter.Queued
}

// mayJoin reports whether c shares the read lease of this process without asking.
func (p *process) mayJoin(c *step) bool {
	if p.shared == nil || !c.Passable || !p.certain(p.shared) || !p.eligible(c) {
		return false
	}
	if writer := p.live(nil, write); writer != nil || p.releasing != nil {
		return p.reenters(c, writer)
	}
	return c.Inside || p.now.Load() < p.joinUntil && p.contender(write) == nil && len(p.queue(write)) == 0
}

// outcome says what one unlock for h must amount to, and counts it. next is who gets the lock if it
// is passed on. If pass is false it goes to another process.
func (p *process) outcome(h *held, pass bool) (out arbiter.Outcome, next *step) {
	if h == nil || h.count == 0 { // since another unlock was for it
		return arbiter.NotHeld, nil
	}
	if h.count--; h.count == 0 {
		p.holds = slices.DeleteFunc(p.holds, func(other *held) bool { return other == h })
	}
	l := h.Lease()
	rests := func(r *held) bool { return !r.lost && r.Lease() == l }
	switch {
	case h.lost:
		return arbiter.WasLost, nil
	case h.count > 0 && !p.ofHandle(h.Owner):
		return arbiter.Kept, nil
	case !p.certain(l):
		h.lost = true
		p.forget(l)
		p.ending = append(p.ending, l)
		return arbiter.Expired, nil
	case h.count > 0:
		return arbiter.Left, nil
	case h.Side() == read && l == p.shared && slices.ContainsFunc(p.holds, rests):
		return arbiter.Left, nil
	case h.Side() == read:
		p.forget(l)
		p.ending = append(p.ending, l)
		return arbiter.Release, nil
	}
	q, idle := p.queue(write), p.contender(write) == nil && p.unread()
	if i := slices.IndexFunc(q, p.eligible); pass && idle && i >= 0 && q[i].Passable {
		if q[i].Class == 1 && l.passes > 0 {
			return arbiter.Passed, q[i]
		}
		l.next = q[i].Class
	}
	if pass && idle && h.keeps && !h.recalled && l.keeps && len(q) == 0 {
		p.kept = l
		return arbiter.Idle, nil
	}
	p.releasing = l
	p.ending = append(p.ending, l)
	return arbiter.Release, nil
}

// forget: nothing rests on l any more.
func (p *process) forget(l *lease) {
	if p.shared == l {
		p.shared = nil
	}
	if p.releasing == l {
		p.releasing = nil
	}
	if p.kept == l {
		p.kept = nil
	}
}

// owed returns the newest hold that a call through via without an owner has lost and not unlocked.
func (p *process) owed(via *handle) *held {
	return p.taken(via, func(h *held) bool { return h.lost && p.of[h.Owner] == via })
}

// last returns the hold that an Unlock without an owner is for.
func (p *process) last(via *handle) *held {
	return cmp.Or(p.owed(via), p.taken(via, func(*held) bool { return true }))
}

// taken returns the newest hold taken through via for which f is true.
func (p *process) taken(via *handle, f func(*held) bool) *held {
	for _, h := range slices.Backward(p.took[via]) {
		if i := slices.IndexFunc(p.holds, func(g *held) bool { return g.hold == h }); i >= 0 && f(p.holds[i]) {
			return p.holds[i]
		}
	}
	return nil
}

// note brings the model up to date with the signals and grants of the last action.
func (p *process) note() {
	for _, h := range p.holds {
		h.lost = h.lost || h.State() == arbiter.Lost
	}
	for _, c := range p.calls {
		if h := p.Answer(c.waiter); h != nil && c.granted == nil {
			p.admit(c, h)
		}
	}
	for i, c := range p.calls {
		if c.at != inQueue || c.seen || len(c.C) == 0 {
			continue
		}
		c.seen = true
		if c.granted != nil {
			continue
		}
		c.apart = c.Side() == read && !p.ofHandle(c.Owner) && p.live(c.Owner, write) != nil
		for _, d := range p.calls[:i] {
			if !c.apart && d.Side() == c.Side() && d.at == inQueue && !d.seen && len(d.C) == 0 && p.eligible(d) {
				p.m.r.Fatal("a call was let in before one that came earlier")
			}
		}
	}
}

// admit records that c was granted a lock of h, and with c the others of the same owner.
func (p *process) admit(c *step, h *hold) {
	c.granted = p.got(c, h)
	for _, d := range p.calls {
		if d.granted == nil && !p.ofHandle(d.Owner) && p.Answer(d.waiter) == h {
			d.granted = p.got(d, h)
		}
	}
}

// got records one lock of h, which c was granted.
func (p *process) got(c *step, h *hold) *held {
	switch other := p.live(c.Owner, c.Side()); {
	case h.Owner != c.Owner || h.Side() != c.Side() || h.State() != arbiter.Live:
		p.m.r.Fatalf("granted as %+v", h)
	case other == nil && !p.eligible(c):
		p.m.r.Fatal("an owner got a hold before it has unlocked the one that it lost")
	case other != nil && other.hold != h:
		p.m.r.Fatal("an owner has two holds")
	case other != nil && p.ofHandle(c.Owner) && c.Side() == write:
		p.m.r.Fatal("a handle entered its hold again")
	}
	took := slices.DeleteFunc(p.took[c.Via], func(g *hold) bool { return g == h })
	p.took[c.Via] = append(took, h)
	for _, g := range p.holds {
		if g.hold == h {
			g.count++
			return g
		}
	}
	g := &held{hold: h, count: 1, keeps: c.Keep > 0, done: h.Done()}
	tell := func(s arbiter.State) { g.told = append(g.told, s) }
	forgotten := func(arbiter.State) { p.m.r.Fatal("a function was called that was to be forgotten") }
	h.OnEnd(&tell)
	h.OnEnd(&forgotten)
	h.Forget(&forgotten)
	p.holds = append(p.holds, g)
	return g
}

// end: a call has come to its end.
func (p *process) end(c *step) {
	p.note()
	p.calls = slices.DeleteFunc(p.calls, func(d *step) bool { return d == c })
	p.Free(c.waiter)
}
