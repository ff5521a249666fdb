package arbiter_test

import (
	"slices"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// unlock is one by o, or by the holder of what was last taken through via.
func (p *process) unlock(via *handle, o *owner) {
	h := p.meant(via, o)
	want, next := p.outcome(h, true)
	p.unlocked(h, p.Exit(via, o, errExpired), want, next)
}

// meant returns the hold that an unlock by o through via is for.
func (p *process) meant(via *handle, o *owner) *held {
	if o == nil {
		return p.last(via)
	}
	return p.newest(o, via.Side())
}

func (p *process) unlocked(h *held, x exit, want arbiter.Outcome, next *step) {
	if want != arbiter.NotHeld && !is(x.Hold, h) {
		p.m.r.Fatal("an unlock of another hold")
	}
	if h != nil && h.count == 0 && (h.End(arbiter.Lost, errLost) || !h.tells()) {
		p.m.r.Fatal("the last unlock ends a hold, and tells so once")
	}
	if want == arbiter.Release && x.Next != x.Lease.next {
		p.m.r.Fatalf("the next one is of class %d, want %d", x.Next, x.Lease.next)
	}
	if (want == arbiter.Expired) != slices.Contains(x.Lost, x.Hold) {
		p.m.r.Fatalf("lost by an unlock: %v", x.Lost)
	}
	if x.Outcome != want {
		p.m.r.Fatalf("unlocked: %v, want %v", x.Outcome, want)
	}
	p.note()
	if next == nil {
		return
	}
	if g := next.granted; g == nil || !g.Passed || g.Lease() != x.Lease || g.Token <= x.Hold.Token {
		p.m.r.Fatal("the next one was not passed the lease")
	}
	next.granted.recalled = h.recalled
}

// unlockHold unlocks h: its owner does, or somebody through a handle that it was taken through.
func (p *process) unlockHold(h *held) {
	for _, via := range p.sides() {
		switch {
		case via.Side() != h.Side():
		case !p.ofHandle(h.Owner):
			p.unlock(via, h.Owner)
			return
		case p.of[h.Owner] == via:
			p.unlock(via, nil)
			return
		}
	}
}

// release: Redis executes a release, and its sender gets to know.
func (p *process) release(l *lease) {
	p.ending = slices.DeleteFunc(p.ending, func(e *lease) bool { return e == l })
	delete(p.m.redis.readers, l)
	if ticket := p.handed[l]; p.m.redis.writer == l {
		if p.m.redis.writer = ticket; ticket != nil {
			p.m.tickets = append(p.m.tickets, ticket)
		}
	}
	waited, place := p.releasing == l, newLease(0, 0)
	taken := p.Released("a", l, place, l.next)
	p.forget(l)
	p.note()
	c := p.contender(write)
	takes := waited && !p.m.open && c != nil && c.Passable && c.Class == l.next
	if taken != takes || takes && c.Place != place {
		p.m.r.Fatalf("the next one takes the place in Redis: %v, want %v", taken, takes)
	}
}

func (p *process) lose(l *lease) {
	lost, kept := p.Lose("a", l, errLost)
	if kept != (p.kept == l) || kept && len(lost) > 0 {
		p.m.r.Fatal("a lease was kept, and used, or not kept, or its keeper has lost it")
	}
	if kept || len(lost) > 0 {
		p.ending = append(p.ending, l)
	}
	p.note()
	p.forget(l)
}

// pass: time goes on, and a lease may get an end.
func (m *model) pass() {
	for _, p := range m.processes {
		p.now.Add(1)
		if ls := p.Leases("a"); len(ls) > 0 && m.chance(6) {
			if l := pick(m, ls, "lease"); l.until.Load() == never {
				l.until.Store(p.now.Load() + int64(rapid.IntRange(0, 2).Draw(m.r, "lasts")))
			}
		}
	}
}

// watch: the watchdog finds the leases that have ended.
func (p *process) watch() {
	for _, l := range append(p.Leases("a"), p.releasing) {
		if l != nil && !p.certain(l) {
			p.lose(l)
		}
	}
}

// expire removes from Redis what has ended, a little later than its holder was certain.
func (m *model) expire() {
	now := m.processes[0].now.Load()
	if w := m.redis.writer; w != nil && now > w.until.Load() {
		m.redis.writer = nil
	}
	for l := range m.redis.readers {
		if now > l.until.Load() {
			delete(m.redis.readers, l)
		}
	}
}

// force opens the lock, and tells everybody. A grant that is on its way would not hear of it. Where
// every call asks, the message may be lost: then the next grant tells.
func (m *model) force() {
	for _, p := range m.processes {
		if slices.ContainsFunc(p.calls, func(c *step) bool { return c.at == replied }) {
			return
		}
	}
	unheard := m.open && !m.many && m.chance(2)
	if w := m.redis.writer; w != nil && unheard {
		m.redis.gone[w] = true
	}
	m.redis.writer = nil
	clear(m.redis.readers)
	for _, p := range m.processes {
		for _, l := range p.Leases("a") {
			if !unheard {
				p.lose(l)
			}
		}
	}
}

// drain lets all calls come to their ends, unlocks everything, and looks for remains.
func (m *model) drain() {
	m.willing = true
	for range 100 {
		for _, p := range m.processes {
			p.now.Add(1)
		}
		for _, p := range m.processes {
			p.watch()
			for len(p.holds) > 0 {
				p.unlockHold(pick(m, p.holds, "hold"))
				m.check()
			}
			if p.kept != nil {
				p.recall()
			}
			for len(p.ending) > 0 {
				p.release(p.ending[0])
			}
			for _, c := range slices.Clone(p.calls) {
				p.advance(c)
				m.check()
			}
		}
	}
	for _, p := range m.processes {
		if len(p.calls) > 0 {
			m.r.Fatalf("%d calls never come to an end", len(p.calls))
		}
		if n := p.Len(); n != 0 {
			m.r.Fatalf("after everything has ended the table knows %d names", n)
		}
		for _, v := range p.sides() {
			if v.OwnerOf(background).Lost() != 0 {
				m.r.Fatal("a handle keeps a lost hold that was unlocked")
			}
		}
	}
	if m.expire(); m.redis.writer != nil || len(m.redis.readers) > 0 {
		m.r.Fatal("something stays in Redis")
	}
}
