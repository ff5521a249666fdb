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
	m.settle(o)
	c := &mcall{call: m.enter(v.handle, o, passable, wait), via: v, owner: o}
	want := arbiter.Queued
	switch {
	case m.entered(o):
		want = arbiter.Entered
		m.held.count++
		v.note(m.held)
	case m.held == nil && m.asker == nil && m.eligible(c):
		want = arbiter.Ask
		c.state, m.asker = mAsking, c
	case !m.eligible(c) && (o != nil || !wait):
		want = arbiter.UnlockFirst
	case !wait:
		want = arbiter.Busy
	default:
		m.queue = append(m.queue, c)
	}
	if c.verdict != want {
		m.r.Fatalf("Enter = %v, want %v", verdicts[c.verdict], verdicts[want])
	}
	if want == arbiter.Entered || want == arbiter.Busy || want == arbiter.UnlockFirst {
		m.Free(c.Waiter)
		return
	}
	m.calls = append(m.calls, c)
}

func (m *machine) certain(h *mhold) bool { return m.now.Load() < h.Lease.until.Load() }

// settle: o is about to enter, and its hold is lost if it is past its deadline.
func (m *machine) settle(o *owner) {
	if !m.entered(o) || m.certain(m.held) {
		return
	}
	h := m.held
	m.held, h.state = nil, arbiter.Lost
	m.lost = append(m.lost, h)
	m.next()
}

func (m *machine) reenter() {
	v, o := pick(m, m.handles, "handle"), pick(m, m.owners, "owner")
	want := m.entered(o) && m.certain(m.held)
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
	var ended *hold
	if g != nil {
		ended = g.hold
	}
	if got, out := m.Return(c.via.handle, h); out != want || got != ended {
		m.r.Fatalf("Return = %v, want %v; the right hold: %v", outcomes[out], outcomes[want], got == ended)
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
