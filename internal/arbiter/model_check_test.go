package arbiter_test

import "slices"

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
			if m.eligible(c) {
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
	if m.held != nil || m.asker != nil || len(m.queue) > 0 {
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
	for m.known() > 0 || len(m.lost) > 0 {
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
