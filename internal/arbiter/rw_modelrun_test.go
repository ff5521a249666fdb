package arbiter_test

import (
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// TestRWModel lets the goroutines of two sessions do what they may, in any order, with
// every step of a conversation with Redis on its own. Writers must exclude everybody
// else for as long as they are certain of their holds, nothing may be released that
// somebody holds, and in the end everybody must get in, and nothing may be left.
func TestRWModel(t *testing.T) {
	for range 15 { // times 100, unless -rapid.checks says otherwise
		rapid.Check(t, func(r *rapid.T) {
			m := newRWModel(t, r)
			for range rapid.IntRange(1, 150).Draw(r, "steps") {
				m.act()
				m.check()
			}
			m.drain()
		})
	}
}

// act does one of the things that may happen now.
func (m *rwModel) act() {
	var acts []func()
	for _, s := range m.sessions {
		if len(s.calls)+len(s.locks) < 8 {
			acts = append(acts, func() { m.lock(s) }, func() { m.lock(s) })
		}
		for _, c := range s.calls {
			if c.at != rwQueued || len(c.C) > 0 {
				acts = append(acts, func() { m.advance(s, c) }, func() { m.advance(s, c) })
			}
		}
		if len(s.calls) > 0 {
			acts = append(acts, func() { m.cancel(s, rwPick(m, s.calls, "call")) })
		}
		for i := range s.locks {
			acts = append(acts, func() { m.unlock(s, i) })
		}
		for _, l := range s.ending {
			acts = append(acts, func() { m.release(s, l) })
		}
	}
	acts = append(acts, func() { m.pass() }, func() { m.watch(rwPick(m, m.sessions, "session")) })
	if m.chance(8) {
		acts = append(acts, m.force)
	}
	rwPick(m, acts, "act")()
}

func (m *rwModel) advance(s *rwSession, c *rwStep) {
	switch c.at {
	case rwQueued:
		m.look(s, c)
	case rwAsking:
		m.send(s, c)
	case rwSent:
		m.execute(c)
	case rwReplied:
		m.receive(s, c)
	}
}

// check looks at the holds that are certain.
func (m *rwModel) check() {
	var writer *rwHold
	var readers []*rwHold
	for _, s := range m.sessions {
		for h := range s.holds {
			switch {
			case h.State() != arbiter.Live:
				delete(s.holds, h)
			case s.parted[h] != nil:
			case h.Lease.until.Load() <= s.clock.Load():
			case h.Side() == readSide:
				readers = append(readers, h)
				if !m.redis.readers[h.Lease] {
					m.r.Fatal("a reader's lease was released")
				}
			case writer != nil:
				m.r.Fatal("two writers")
			default:
				writer = h
				if m.redis.writer != h.Lease {
					m.r.Fatal("a writer's lease was released")
				}
			}
		}
	}
	for _, s := range m.sessions {
		m.checkParted(s)
	}
	for _, h := range readers {
		if writer != nil && (h.Owner == nil || h.Owner != writer.Owner) {
			m.r.Fatal("a reader beside a writer")
		}
	}
}

// drain lets all calls come to their ends, unlocks everything, and looks for remains.
func (m *rwModel) drain() {
	m.kind = true
	for range 100 {
		for _, s := range m.sessions {
			s.clock.Add(1)
		}
		for _, s := range m.sessions {
			m.watch(s)
			for len(s.locks) > 0 {
				m.unlock(s, rapid.IntRange(0, len(s.locks)-1).Draw(m.r, "lock"))
				m.check()
			}
			for len(s.ending) > 0 {
				m.release(s, s.ending[0])
			}
			for _, c := range slices.Clone(s.calls) {
				m.advance(s, c)
				m.check()
			}
		}
	}
	for _, s := range m.sessions {
		if len(s.calls) > 0 {
			m.r.Fatalf("%d calls never come to an end", len(s.calls))
		}
		if n := s.Len(); n != 0 {
			m.r.Fatalf("after everything has ended the arbiter knows %d names", n)
		}
	}
	if m.expire(); m.redis.writer != nil || len(m.redis.readers) > 0 {
		m.r.Fatal("something stays in Redis")
	}
}
