package arbiter_test

import (
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// ticket is a lock that a goroutine has taken and will unlock once.
type ticket struct {
	via   *handle
	owner *owner // nil: none
	hold  *hold
}

// truth knows what the table cannot: which goroutine makes an unlock.
type truth struct {
	*world
	r       *rapid.T
	handles []*handle
	owners  []*owner // the first is nil; the last locks under its context, and unlocks without
	tickets []ticket
	live    *hold
	via     *handle // that live was locked through
}

// TestNobodyEndsAnothersHold: goroutines lock through handles that they share, with or without an
// owner, and unlock each lock once, whether it was lost or not. None of them ends a hold whose
// goroutine has not unlocked it, each is told that it held something, and when all have unlocked
// nothing is left.
func TestNobodyEndsAnothersHold(t *testing.T) {
	for range 5 { // times 100, unless -rapid.checks says otherwise
		rapid.Check(t, func(r *rapid.T) {
			m := &truth{world: newWorld(discard{t}), r: r, owners: []*owner{nil, new(owner), new(owner), new(owner)}}
			m.handles = []*handle{m.handle("a"), m.handle("a")}
			for range rapid.IntRange(1, 40).Draw(r, "steps") {
				switch rapid.SampledFrom([]string{"lock", "lock", "unlock", "lose"}).Draw(r, "action") {
				case "lock":
					m.lock()
				case "unlock":
					m.unlock()
				case "lose":
					if m.live != nil {
						m.Lose("a", m.live.Lease)
						m.live = nil
					}
				}
			}
			for len(m.tickets) > 0 {
				m.unlock()
			}
			if m.Len() != 0 {
				r.Fatal("everybody has unlocked, and the lock is held")
			}
			for _, v := range m.handles {
				m.leave(v, m.take(v, nil, 0).Owner) // nobody's unlock is due
			}
		})
	}
}

func (m *truth) lock() {
	v := m.handles[rapid.IntRange(0, 1).Draw(m.r, "handle")]
	o := m.owners[rapid.IntRange(0, len(m.owners)-1).Draw(m.r, "owner")]
	if o != nil && m.live != nil && m.live.Owner == o {
		v = m.via // the one that it was locked through, or one of its own
		if o != m.owners[3] && rapid.Bool().Draw(m.r, "own") {
			v = m.handle("a")
		}
	}
	c := m.try(v, o)
	switch c.verdict {
	case arbiter.Ask:
		m.live, m.via = c.grant(0), v
		m.tickets = append(m.tickets, ticket{v, o, m.live})
	case arbiter.Entered:
		m.tickets = append(m.tickets, ticket{v, o, m.live})
	}
}

func (m *truth) unlock() {
	if len(m.tickets) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.tickets)-1).Draw(m.r, "ticket")
	for j, u := range m.tickets {
		if o := m.tickets[i].owner; o != nil && u.owner == o {
			i = j // its sections are nested
		}
	}
	u := m.tickets[i]
	m.tickets = slices.Delete(m.tickets, i, i+1)
	o, via := u.owner, u.via
	if o == m.owners[3] {
		o = nil
	} else if o != nil {
		via = m.handles[rapid.IntRange(0, 1).Draw(m.r, "through")]
	}
	h, out := m.Exit(via, o)
	switch out {
	case arbiter.NotHeld:
		m.r.Fatal("its goroutine is told that it holds nothing")
	case arbiter.Release:
		m.Released("a", h.Lease)
		m.live = nil
		for _, other := range m.tickets {
			if other.hold == h && (u.owner == nil || u.owner != h.Owner) {
				m.r.Fatal("the hold of a goroutine that has not unlocked it was ended")
			}
		}
	}
}
