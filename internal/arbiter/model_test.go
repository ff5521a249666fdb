package arbiter_test

import (
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"pgregory.net/rapid"
)

// The model says in plain slices what the table must do. Every action is done to
// both; answers, signals and states must agree after each.

// mhold is a hold as the model sees it.
type mhold struct {
	*hold
	owner *owner
	count int
	state arbiter.State
}

// mcall is a call of Lock as the model sees it.
type mcall struct {
	*call
	via   *mhandle
	owner *owner
	state mstate
	hold  *mhold // what it was granted
	told  bool   // its signal is outstanding
}

type mstate uint8

const (
	mQueued mstate = iota
	mAsking
	mGranted
)

// mhandle is a handle as the model sees it.
type mhandle struct {
	*handle
	latest *mhold
	open   []*mhold // oldest first; ended ones may be in it
	quiet  int      // how often a hold was taken while none awaited an unlock
}

// machine is the model of one lock, and the table under test. Several machines share
// a table.
type machine struct {
	*world
	r       *rapid.T
	name    string
	handles []*mhandle
	owners  []*owner // the first is nil

	held    *mhold
	leaving bool
	asker   *mcall
	queue   []*mcall
	lost    []*mhold
	debts   []mdebt
	calls   []*mcall // those that have not come to their end
	holds   []*mhold // all there ever were
}

func newMachine(r *rapid.T, w *world, name string, owners []*owner) *machine {
	m := &machine{world: w, r: r, name: name, owners: owners}
	for range 3 {
		m.handles = append(m.handles, &mhandle{handle: w.handle(name)})
	}
	return m
}

func pick[T any](m *machine, from []T, label string) T {
	return rapid.SampledFrom(from).Draw(m.r, label)
}

// note: h was taken through v.
func (v *mhandle) note(h *mhold) {
	if v.latest != h && !v.others(nil) {
		v.quiet++
	}
	if !slices.Contains(v.open, h) {
		v.open = append(v.open, h)
	}
	v.latest = h
}

// lostHold returns the oldest lost hold of v that awaits its unlock.
func (v *mhandle) lostHold(anonymousOnly bool) *mhold {
	for _, h := range v.open {
		if h.state == arbiter.Lost && h.count > 0 && (h.owner == nil || !anonymousOnly) {
			return h
		}
	}
	return nil
}

// eligible: no unlock must come first: the owner's own of a lost hold, or one through the
// same handle that could not be told from this call's.
func (m *machine) eligible(c *mcall) bool {
	if c.owner != nil {
		return m.lostOf(c.owner) == nil
	}
	return c.via.lostHold(true) == nil
}

func (m *machine) entered(o *owner) bool {
	return o != nil && m.held != nil && !m.leaving && m.held.owner == o
}

// next: the first eligible waiter asks, if nobody holds or asks.
func (m *machine) next() {
	if m.held != nil || m.asker != nil {
		return
	}
	if i := slices.IndexFunc(m.queue, m.eligible); i >= 0 {
		c := m.queue[i]
		m.queue = slices.Delete(m.queue, i, i+1)
		c.state, c.told, m.asker = mAsking, true, c
	}
}

// give: c has the lock, and so have the waiters of the same owner.
func (m *machine) give(c *mcall, h *hold) {
	g := &mhold{hold: h, owner: c.owner, count: 1}
	m.held, m.leaving = g, false
	m.holds = append(m.holds, g)
	c.state, c.hold = mGranted, g
	c.via.note(g)
	m.queue = slices.DeleteFunc(m.queue, func(q *mcall) bool {
		if q.owner == nil || q.owner != c.owner {
			return false
		}
		q.state, q.hold, q.told = mGranted, g, true
		g.count++
		q.via.note(g)
		return true
	})
}

// exit: one unlock of h.
func (m *machine) exit(h *mhold) arbiter.Outcome {
	h.count--
	switch {
	case h.state == arbiter.Lost:
		if h.count == 0 {
			m.lost = slices.DeleteFunc(m.lost, func(l *mhold) bool { return l == h })
			m.next()
		}
		return arbiter.WasLost
	case h.count > 0:
		return arbiter.Kept
	case m.now.Load() >= h.Lease.until.Load():
		h.state, m.held = arbiter.Lost, nil
		m.next()
		return arbiter.Expired
	}
	h.state = arbiter.Ended
	if i := slices.IndexFunc(m.queue, m.eligible); i >= 0 && m.queue[i].Passable && m.passable(h) {
		c := m.queue[i]
		m.queue = slices.Delete(m.queue, i, i+1)
		c.told = true
		m.give(c, nil) // the hold itself is learnt from the table
		return arbiter.Passed
	}
	m.leaving = true
	return arbiter.Release
}

// passable is asked before the table has used up a pass.
func (m *machine) passable(h *mhold) bool { return h.Lease.passes > 0 }

// learn takes from the table what only it knows: the hold that before was passed on as.
func (m *machine) learn(before *mhold) {
	if m.held == nil || m.held.hold != nil {
		return
	}
	h := m.Lookup(m.name)
	if h == nil || !h.Passed || h.Lease != before.Lease || h.Token <= before.Token {
		m.r.Fatalf("passed on as %+v", h)
	}
	m.held.hold = h
}

// end: the call has come to its end.
func (m *machine) end(c *mcall) {
	m.calls = slices.DeleteFunc(m.calls, func(d *mcall) bool { return d == c })
	m.Free(c.Waiter)
}

// among returns the calls that are in a state.
func (m *machine) among(s mstate, told bool) []*mcall {
	var cs []*mcall
	for _, c := range m.calls {
		if c.state == s && c.told == told {
			cs = append(cs, c)
		}
	}
	return cs
}

// TestModel compares the table with the model over random actions on two locks, some
// of whose owners are the same.
func TestModel(t *testing.T) {
	for range 10 { // times 100, unless -rapid.checks says otherwise
		rapid.Check(t, model(t))
	}
}

func model(t *testing.T) func(*rapid.T) {
	return func(r *rapid.T) {
		w := newWorld(discard{t})
		owners := []*owner{nil, new(owner), new(owner)}
		a, b := newMachine(r, w, "a", owners), newMachine(r, w, "b", owners)
		actions := map[string]func(*rapid.T){}
		for _, m := range []*machine{a, b} {
			for name, act := range m.actions() {
				actions[m.name+": "+name] = act
			}
		}
		actions["time passes"] = func(*rapid.T) { w.now.Add(1) }
		actions[""] = func(*rapid.T) {
			a.check()
			b.check()
			if names, want := w.Len(), a.known()+b.known(); names != want {
				r.Fatalf("the table knows %d names, want %d", names, want)
			}
			if n, want := len(w.Holds()), a.live()+b.live(); n != want {
				r.Fatalf("%d live holds, want %d", n, want)
			}
		}
		r.Repeat(actions)
		a.drain()
		b.drain()
		if w.Len() != 0 {
			r.Fatalf("after everything has ended the table knows %d names", w.Len())
		}
	}
}

// discard is a testing.TB of which a world made for one run of a property may not
// take the cleanup.
type discard struct{ testing.TB }

func (discard) Cleanup(func()) {}
