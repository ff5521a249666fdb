package arbiter

// Outcome is the result of an unlock.
type Outcome uint8

const (
	NotHeld Outcome = iota // this owner holds nothing here
	WasLost                // the hold had been lost
	Kept                   // the owner had locked more than once, and still holds it
	Passed                 // the next goroutine of this process has the lease now
	Release                // the caller must release it in Redis, then call Released
	Expired                // its lease had run out unnoticed: the hold is lost as of now
	Left                   // the hold ended; other readers of this process share its lease
)

// Exit is one unlock through via. With an owner it ends that owner's newest hold of the name.
// Without one it ends the newest hold taken through via; attribution.go says what happens if
// one of them was lost. Exit returns the hold unless the outcome is NotHeld. Its owner differs
// from o only if the unlock was without an owner, or settled a debt to o.
func (t *Table[L]) Exit(via *Handle[L], o *Owner) (*Hold[L], Outcome) {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld
	}
	h := e.findLocked(via, o)
	if h == nil {
		return nil, NotHeld
	}
	return h, t.exitLocked(s, e, via.name, h)
}

// Return gives back one lock of h, which was granted to a call that has been cancelled. If
// another goroutine of the owner, whose own hold was lost, has unlocked h meanwhile, Return
// counts for that lost hold, or for the one that its unlock was counted for. It returns what
// Exit does: the outcome is that of the hold that it has ended.
func (t *Table[L]) Return(via *Handle[L], h *Hold[L]) (ended *Hold[L], out Outcome) {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld
	}
	if h.count == 0 {
		if h = e.owedLocked(h.Owner); h == nil {
			return nil, NotHeld
		}
	}
	return h, t.exitLocked(s, e, via.name, h)
}

// findLocked returns the hold that an unlock by o through via is for.
func (e *entry[L]) findLocked(via *Handle[L], o *Owner) *Hold[L] {
	if o == nil {
		last := via.lastLocked()
		return e.ownerless(via, last, last)
	}
	if e.heldBy(o) {
		return e.hold
	}
	return e.owedLocked(o)
}

// owedLocked returns the hold that an unlock of o, who has no live hold, is for: its lost hold,
// or one with a debt to o.
func (e *entry[L]) owedLocked(o *Owner) *Hold[L] {
	if h := e.lostOf(o, Write); h != nil {
		return h
	}
	if e.hold.settle(o) != nil {
		return e.hold
	}
	for _, h := range e.lost {
		if h.settle(o) != nil {
			return h
		}
	}
	return nil
}

// exitLocked counts one unlock for h.
func (t *Table[L]) exitLocked(s *shard[L], e *entry[L], name string, h *Hold[L]) Outcome {
	h.count--
	if h.State() == Lost {
		if h.count == 0 {
			e.forget(h)
			t.promoteLocked(s, name, e) // calls that wait for this unlock may go on
		}
		return WasLost
	}
	if h.count > 0 {
		return Kept
	}
	now := t.Now()
	if !t.Certain(h.Lease, now) {
		h.End(Lost)
		e.hold = nil
		t.promoteLocked(s, name, e)
		return Expired
	}
	h.End(Ended)
	if w := e.firstLocked(); w != nil && w.Passable {
		if token, ok := t.Pass(h.Lease, w.Class, now); ok {
			e.queue.remove(w)
			e.grantLocked(w, h.Lease, token, now).Passed = true
			w.C <- struct{}{}
			return Passed
		}
	}
	e.releasing = true
	return Release
}
