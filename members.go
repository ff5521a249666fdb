package relock

import "github.com/relock-go/relock/internal/arbiter"

// What a Group and a Redlock need of the lock types.

func (b *lockBase) session() *Session { return b.s }

// order of a lock is its name, then its kind: the same in every process.
func (m *Mutex) order() string     { return m.keys.name + "\x00" }
func (m *FairMutex) order() string { return m.keys.name + "\x00" }
func (rw *RWMutex) order() string  { return rw.keys.name + "\x00write" }
func (r *rlocker) order() string   { return r.keys.name + "\x00writeread" }

func (m *Mutex) onEnd(o *arbiter.Owner, f func(arbiter.State)) {
	callOnEnd(m.s.table.HoldOf(&m.h, o), f)
}

func (m *FairMutex) onEnd(o *arbiter.Owner, f func(arbiter.State)) {
	callOnEnd(m.s.fairs.HoldOf(&m.h, o), f)
}

func (rw *RWMutex) onEnd(o *arbiter.Owner, f func(arbiter.State)) {
	callOnEnd(rw.s.rws.HoldOf(&rw.w, o, arbiter.Write), f)
}

func (r *rlocker) onEnd(o *arbiter.Owner, f func(arbiter.State)) {
	callOnEnd(r.s.rws.HoldOf(&r.r, o, arbiter.Read), f)
}

// callOnEnd has f called at the end of a hold; one that is gone was lost.
func callOnEnd(h *hold, f func(arbiter.State)) {
	if h == nil {
		f(arbiter.Lost)
		return
	}
	h.OnEnd(f)
}

func (m *Mutex) abandon(o *arbiter.Owner) {
	h, outcome := m.s.table.Exit(&m.h, o)
	m.s.abandoned(h, outcome, 1)
}

func (m *FairMutex) abandon(o *arbiter.Owner) {
	h, outcome := m.s.fairs.Exit(&m.h, o)
	m.s.abandoned(h, outcome, 1)
}

func (rw *RWMutex) abandon(o *arbiter.Owner) {
	h, outcome, n := rw.s.rws.Exit(&rw.w, o, arbiter.Write)
	rw.s.abandoned(h, outcome, n)
}

func (r *rlocker) abandon(o *arbiter.Owner) {
	h, outcome, n := r.s.rws.Exit(&r.r, o, arbiter.Read)
	r.s.abandoned(h, outcome, n)
}

// abandoned does what an unlock comes to that nobody waits for; n is how many holds it
// found lost.
func (s *Session) abandoned(h *hold, outcome arbiter.Outcome, n int) {
	switch outcome {
	case arbiter.Expired:
		s.lost(h.Lease, errExpired, n)
	case arbiter.Release:
		s.releaseLater(h.Lease)
	}
}

// deployment identifies what the session's client leads to, as well as it is known.
func (s *Session) deployment() string {
	if s.place != "" {
		return s.place
	}
	return "session " + s.id
}
