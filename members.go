package relock

import (
	"context"
	"reflect"

	"github.com/relock-go/relock/internal/arbiter"
)

// member is a lock type of this package as part of a group.
type member interface {
	Locker
	order() (string, int)             // the place in the groups' canonical one; empty if there is none
	sessions() []*Session             // without which the lock cannot be had
	heldBy(o *arbiter.Owner) heldLock // the live hold of o, nil if there is none
	settle(o *arbiter.Owner)          // ends the hold of o if its deadline has passed
	abandon(o *arbiter.Owner)         // ends one lock of o without waiting for Redis
}

// heldLock is a hold of any type of lock.
type heldLock interface {
	OnEnd(f *func(arbiter.State))
	Forget(f *func(arbiter.State))
}

// The order is that of names, the same in every process, and of what one owner must
// lock first.
func (m *Mutex) order() (string, int)     { return m.keys.name, 0 }
func (m *FairMutex) order() (string, int) { return m.keys.name, 0 }
func (rw *RWMutex) order() (string, int)  { return rw.keys.name, 0 }
func (r *rlocker) order() (string, int)   { return r.keys.name, 1 }
func (r *Redlock) order() (string, int)   { return r.name, 2 }
func (g *Group) order() (string, int)     { return "", 0 }

func (b *lockBase) sessions() []*Session {
	if b.s == nil {
		return nil
	}
	return []*Session{b.s}
}

// sessions of a Redlock are none: it can do without any of them.
func (r *Redlock) sessions() []*Session { return nil }

func (g *Group) sessions() (all []*Session) {
	for _, l := range g.members {
		if m, ok := l.(member); ok {
			all = append(all, m.sessions()...)
		}
	}
	return all
}

func (m *Mutex) heldBy(o *arbiter.Owner) heldLock {
	return orNil(m.s.table.HoldOf(&m.h, o))
}

func (m *FairMutex) heldBy(o *arbiter.Owner) heldLock {
	return orNil(m.s.fairs.HoldOf(&m.h, o))
}

func (rw *RWMutex) heldBy(o *arbiter.Owner) heldLock {
	return orNil(rw.s.rws.HoldOf(&rw.w, o, arbiter.Write))
}

func (r *rlocker) heldBy(o *arbiter.Owner) heldLock {
	return orNil(r.s.rws.HoldOf(&r.r, o, arbiter.Read))
}

// orNil makes nothing of a nil hold.
func orNil(h *hold) heldLock {
	if h == nil {
		return nil
	}
	return h
}

func (m *Mutex) settle(o *arbiter.Owner)     { m.settled(m.s.table.HoldOf(&m.h, o)) }
func (m *FairMutex) settle(o *arbiter.Owner) { m.settled(m.s.fairs.HoldOf(&m.h, o)) }
func (rw *RWMutex) settle(o *arbiter.Owner)  { rw.settled(rw.s.rws.HoldOf(&rw.w, o, arbiter.Write)) }
func (r *rlocker) settle(o *arbiter.Owner)   { r.settled(r.s.rws.HoldOf(&r.r, o, arbiter.Read)) }

func (b *lockBase) settled(h *hold) {
	if h != nil {
		b.noticeExpiry(h)
	}
}

func (m *Mutex) abandon(o *arbiter.Owner) {
	defer m.s.leaving()()
	h, outcome := m.s.table.Exit(&m.h, o)
	m.s.abandoned(h, outcome, 1)
}

func (m *FairMutex) abandon(o *arbiter.Owner) {
	defer m.s.leaving()()
	h, outcome := m.s.fairs.Exit(&m.h, o)
	m.s.abandoned(h, outcome, 1)
}

func (rw *RWMutex) abandon(o *arbiter.Owner) {
	defer rw.s.leaving()()
	h, outcome, n := rw.s.rws.Exit(&rw.w, o, arbiter.Write)
	rw.s.abandoned(h, outcome, n)
}

func (r *rlocker) abandon(o *arbiter.Owner) {
	defer r.s.leaving()()
	h, outcome, n := r.s.rws.Exit(&r.r, o, arbiter.Read)
	r.s.abandoned(h, outcome, n)
}

// leaving counts what follows, until the returned function is called, among the calls that
// Close waits for: it goes on after a call of which Close does not know, and between the
// end of the local hold and the release nobody else would see to it.
func (s *Session) leaving() (left func()) {
	s.calls.Add(1)
	return s.end
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

// asOwner returns ctx with an owner in it.
func asOwner(ctx context.Context, o *arbiter.Owner) context.Context {
	if ownerOf(ctx) == o {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, o)
}

// await waits for a signal on c, the end of ctx, or the closing of a session that is
// not closed yet, and reports whether it was the first.
func await(ctx context.Context, c <-chan struct{}, sessions []*Session) bool {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
	}
	for _, s := range sessions {
		if !s.closed() {
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(s.closing)})
		}
	}
	i, _, _ := reflect.Select(cases)
	return i == 0
}
