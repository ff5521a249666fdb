package arbiter_test

import (
	"slices"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// actions are what may happen to the lock; what cannot happen now is skipped.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"lock":     func(*rapid.T) { m.lock(true) },
		"lock too": func(*rapid.T) { m.lock(true) }, // so that queues grow
		"try":      func(*rapid.T) { m.lock(false) },
		"reenter":  func(*rapid.T) { m.reenter() },
		"look":     func(*rapid.T) { m.look() },
		"grant":    func(*rapid.T) { m.granted() },
		"abandon":  func(*rapid.T) { m.abandon() },
		"quit":     func(*rapid.T) { m.quit() },
		"unlock":   func(*rapid.T) { m.unlock() },
		"unlocked": func(*rapid.T) { m.released() },
		"lose":     func(*rapid.T) { m.lose() },
	}
}

func (m *machine) lock(wait bool) {
	if len(m.queue) > 6 {
		m.r.Skip("enough wait")
	}
	v, o := pick(m, m.handles, "handle"), pick(m, m.owners, "owner")
	passable := rapid.IntRange(0, 3).Draw(m.r, "passable") > 0
	c := &mcall{call: m.enter(v.handle, o, passable, wait), via: v, owner: o}
	want := arbiter.Queued
	switch {
	case m.entered(o):
		want = arbiter.Entered
		m.held.count++
		v.note(m.held)
	case m.held == nil && m.asker == nil && c.eligible():
		want = arbiter.Ask
		c.state, m.asker = mAsking, c
	case !wait:
		want = arbiter.Busy
	default:
		m.queue = append(m.queue, c)
	}
	if c.verdict != want {
		m.r.Fatalf("Enter = %v, want %v", verdicts[c.verdict], verdicts[want])
	}
	if want == arbiter.Entered || want == arbiter.Busy {
		m.Free(c.Waiter)
		return
	}
	m.calls = append(m.calls, c)
}

func (m *machine) reenter() {
	v, o := pick(m, m.handles, "handle"), pick(m, m.owners, "owner")
	want := m.entered(o)
	if got := m.Reenter(v.handle, o); got != want {
		m.r.Fatalf("Reenter = %v, want %v", got, want)
	}
	if want {
		m.held.count++
		v.note(m.held)
	}
}

// look: a call that was signalled finds out what it is now. Whoever was granted the
// lock has come to the end of Lock.
func (m *machine) look() {
	told := append(m.among(mGranted, true), m.among(mAsking, true)...)
	if len(told) == 0 {
		m.r.Skip("nobody is signalled")
	}
	c := pick(m, told, "call")
	if !c.fired() {
		m.r.Fatal("no signal")
	}
	c.told = false
	h := m.Role(c.Waiter)
	if c.state == mAsking && h != nil || c.state == mGranted && h != c.hold.hold {
		m.r.Fatalf("Role = %+v", h)
	}
	if c.state == mGranted {
		m.end(c)
	}
}

func (m *machine) granted() {
	if m.asker == nil || m.asker.told {
		m.r.Skip("nobody asks")
	}
	c := m.asker
	h := c.grant(rapid.IntRange(0, 3).Draw(m.r, "passes"))
	if rapid.IntRange(0, 3).Draw(m.r, "expires") == 0 {
		h.Lease.until.Store(m.now.Load() + 3)
	}
	if h.Passed || h.Owner != c.owner || h.Since != m.now.Load() {
		m.r.Fatalf("granted as %+v", h)
	}
	m.asker = nil
	m.give(c, h)
	m.end(c)
}

func (m *machine) abandon() {
	if m.asker == nil || m.asker.told {
		m.r.Skip("nobody asks")
	}
	c := m.asker
	m.Quit(c.Waiter)
	m.asker = nil
	m.next()
	m.end(c)
}

// quit: a call is cancelled that waits or has not noticed that it need not any more.
func (m *machine) quit() {
	waiting := append(m.among(mQueued, false), m.among(mAsking, true)...)
	waiting = append(waiting, m.among(mGranted, true)...)
	if len(waiting) == 0 {
		m.r.Skip("nobody waits")
	}
	c := pick(m, waiting, "call")
	got := m.Quit(c.Waiter)
	switch c.state {
	case mQueued:
		m.queue = slices.DeleteFunc(m.queue, func(q *mcall) bool { return q == c })
	case mAsking:
		m.asker = nil
		m.next()
	case mGranted:
		if got != c.hold.hold {
			m.r.Fatalf("Quit = %+v", got)
		}
		m.giveBack(c, got)
		m.end(c)
		return
	}
	if got != nil {
		m.r.Fatalf("Quit = %+v, want nothing", got)
	}
	m.end(c)
}

func (m *machine) giveBack(c *mcall, h *hold) {
	g, want := c.hold, arbiter.NotHeld
	if g.count == 0 {
		g = m.owed(g.owner)
	}
	if g != nil {
		want = m.exit(g)
	}
	if got := m.Return(c.via.handle, h); got != want {
		m.r.Fatalf("Return = %v, want %v", outcomes[got], outcomes[want])
	}
	m.learn(g)
}

func (m *machine) unlock() {
	v, o := pick(m, m.handles, "handle"), pick(m, m.owners, "owner")
	h, want := m.find(v, o), arbiter.NotHeld
	var ended *hold
	if h != nil {
		want, ended = m.exit(h), h.hold
	}
	m.unlocked(v, o, h, ended, want)
}

func (m *machine) unlocked(v *mhandle, o *owner, h *mhold, ended *hold, want arbiter.Outcome) {
	got, outcome := m.Exit(v.handle, o)
	if outcome != want || got != ended {
		m.r.Fatalf("Exit = %v, want %v; the right hold: %v", outcomes[outcome], outcomes[want], got == ended)
	}
	m.learn(h)
}

func (m *machine) released() {
	if !m.leaving {
		m.r.Skip("no release is under way")
	}
	m.Released(m.name, m.held.Lease)
	m.held, m.leaving = nil, false
	m.next()
}

// lose: a lease is lost, the current one or, to no effect, an older one.
func (m *machine) lose() {
	if len(m.holds) == 0 {
		m.r.Skip("there was no hold")
	}
	recent := m.holds[max(0, len(m.holds)-3):]
	l := pick(m, recent, "hold").Lease
	var want *hold
	if m.held != nil && m.held.Lease == l {
		h := m.held
		m.held = nil
		if !m.leaving {
			want, h.state = h.hold, arbiter.Lost
			m.lost = append(m.lost, h)
		}
		m.leaving = false
		m.next()
	}
	if got := m.Lose(m.name, l); got != want {
		m.r.Fatalf("Lose = %+v, want %+v", got, want)
	}
}

// check compares everything that can be seen of the table, and what must hold at any
// time.
func (m *machine) check() {
	r := m.r
	if m.held != nil && m.asker != nil {
		r.Fatal("somebody holds and somebody asks")
	}
	if n := m.Waiting(m.name); n != len(m.queue) {
		r.Fatalf("%d calls wait, want %d", n, len(m.queue))
	}
	var live *hold
	if m.live() == 1 {
		live = m.held.hold
	}
	if m.Lookup(m.name) != live {
		r.Fatal("Lookup finds another hold than the live one")
	}
	if m.held == nil && m.asker == nil {
		for _, c := range m.queue {
			if c.eligible() {
				r.Fatal("a call waits for nothing")
			}
		}
	}
	for _, c := range m.calls {
		if (len(c.C) == 1) != c.told {
			r.Fatalf("a call has %d signals, want %v", len(c.C), c.told)
		}
	}
	for _, h := range m.holds {
		if h.State() != h.state {
			r.Fatalf("a hold is %v, want %v", states[h.State()], states[h.state])
		}
	}
	for _, v := range m.handles {
		if (v.latest == nil) != (v.Latest() == nil) || v.latest != nil && v.Latest() != v.latest.hold {
			r.Fatal("a handle's latest hold is another")
		}
	}
}

// known is 1 if the table must remember the lock.
func (m *machine) known() int {
	if m.held != nil || m.asker != nil || len(m.queue) > 0 || len(m.lost) > 0 {
		return 1
	}
	return 0
}

// live is 1 if there is a live hold.
func (m *machine) live() int {
	if m.held != nil && !m.leaving {
		return 1
	}
	return 0
}

// drain lets every call come to its end and unlocks everything.
func (m *machine) drain() {
	for m.known() > 0 {
		m.check()
		switch told := append(m.among(mGranted, true), m.among(mAsking, true)...); {
		case len(told) > 0:
			m.look()
		case m.leaving:
			m.released()
		case m.asker != nil:
			m.granted()
		default:
			m.drainOne()
		}
	}
}

// drainOne unlocks something that is held or lost, by its owner or, if it has none,
// through its handle.
func (m *machine) drainOne() {
	h := m.held
	if h == nil {
		h = m.lost[0]
	}
	v := m.handles[0]
	if h.owner == nil {
		v = m.handles[slices.IndexFunc(m.handles, func(v *mhandle) bool { return slices.Contains(v.open, h) })]
	}
	o := h.owner
	h = m.find(v, o) // another one if an earlier loss of that handle comes first
	ended := h.hold
	m.unlocked(v, o, h, ended, m.exit(h))
}
