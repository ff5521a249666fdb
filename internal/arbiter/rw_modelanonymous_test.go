package arbiter_test

import (
	"slices"

	"github.com/relock-go/relock/internal/arbiter"
)

// unlockedReader: an unlock of l ended a lock of h. If h is anonymous, none of the other
// anonymous holds taken through its handle would have been over before, whether l was
// anonymous or its owner's unlock settled a debt.
func (m *rwModel) unlockedReader(s *rwSession, l rwLock, h *rwHold) {
	if h.Owner != nil {
		if l.owner == nil && len(s.anonymous(l.via, h)) > 0 {
			m.r.Fatal("it was counted for an owner's hold")
		}
		return
	}
	for _, other := range s.anonymous(s.handleOf(h), h) {
		if other.Lease.ends < h.Lease.ends {
			m.r.Fatal("another lease would have been over before")
		}
	}
	m.unlockedAnonymous(s, h)
}

// unlockedAnonymous: if that was the last lock of h, its reader is told of no end while the
// other anonymous holds taken through its handle go on: it may be one of those that are left.
func (m *rwModel) unlockedAnonymous(s *rwSession, h *rwHold) {
	via := s.handleOf(h)
	if via.Awaited(h) > 0 {
		return
	}
	others := s.anonymous(via, h)
	want := arbiter.Ended
	if len(others) > 0 {
		want = arbiter.Live
		s.parted[h] = via
	}
	if h.State() != want {
		m.r.Fatalf("beside %d others its hold is %d", len(others), h.State())
	}
}

// handleOf returns the handle that an anonymous hold was taken through.
func (s *rwSession) handleOf(h *rwHold) *rwHandle {
	if via := s.holds[h]; via != nil {
		return via
	}
	for _, c := range s.calls { // granted, and has not looked yet
		if g, _ := s.Answer(c.Waiter); g == h {
			return c.Via
		}
	}
	s.t.Fatal("nobody took it")
	return nil
}

// anonymous returns the live holds taken through a handle without an owner, but h.
func (s *rwSession) anonymous(via *rwHandle, h *rwHold) (hs []*rwHold) {
	for other, v := range s.holds {
		if v == via && other != h && other.Owner == nil && other.State() == arbiter.Live && s.parted[other] == nil {
			hs = append(hs, other)
		}
	}
	for _, c := range s.calls { // granted, and has not looked yet
		g, _ := s.Answer(c.Waiter)
		if g != nil && g != h && c.Via == via && c.Owner == nil && s.holds[g] == nil && !slices.Contains(hs, g) && g.State() == arbiter.Live {
			hs = append(hs, g)
		}
	}
	return hs
}

// checkParted looks at the holds whose leases were released by an unlock that may have
// been another's: they end when the last lease of their handle goes, or when they would
// have been over by themselves.
func (m *rwModel) checkParted(s *rwSession) {
	for h, via := range s.parted {
		left := len(s.anonymous(via, h))
		switch state := h.State(); {
		case state == arbiter.Live && left == 0:
			m.r.Fatal("a hold is live, and no lease is left")
		case state == arbiter.Ended && left > 0:
			m.r.Fatal("a hold has ended, and its reader may be in")
		}
		if h.State() != arbiter.Live {
			delete(s.parted, h)
		}
	}
}
