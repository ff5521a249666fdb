package arbiter

// Outcome is what became of an unlock.
type Outcome uint8

const (
	NotHeld Outcome = iota // this owner holds nothing here
	WasLost                // the hold had been lost
	Kept                   // the owner still holds it: it had locked more than once
	Passed                 // the next goroutine of this process has it
	Release                // the caller must release it from Redis, then call Released
	Expired                // its lease had run out unnoticed: it is lost as of now
	Left                   // it is over; other readers of this process are on its lease
)

// Exit is one unlock through via. With an owner it ends that owner's newest hold
// of this name. Without one it ends the latest hold taken through via; but if a
// hold taken through via was lost and not yet unlocked, the unlock may be that
// hold's, and is counted as such: a lock is rather held too long than released
// under somebody else. If it was not, and the owner of the lost hold unlocks as such
// afterwards, then that is counted for the hold whose unlock was taken; so every hold
// ends. The hold is returned unless the outcome is NotHeld; its owner is another than
// o only in the latter case.
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

// Return ends one lock of h, which its taker was granted but does not want. If
// another goroutine of the owner, whose own hold was lost, has ended h meanwhile,
// Return ends that lost one in its place.
func (t *Table[L]) Return(via *Handle[L], h *Hold[L]) Outcome {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return NotHeld
	}
	if h.count == 0 {
		if h = e.owedLocked(h.Owner); h == nil {
			return NotHeld
		}
	}
	return t.exitLocked(s, e, via.name, h)
}

func (e *entry[L]) findLocked(via *Handle[L], o *Owner) *Hold[L] {
	if o == nil {
		return e.ownerless(via, via.lastLocked())
	}
	if e.heldBy(o) {
		return e.hold
	}
	return e.owedLocked(o)
}

// owedLocked returns what awaits an unlock of o that has no live hold: its lost hold, or
// one for which the unlock of that was taken.
func (e *entry[L]) owedLocked(o *Owner) *Hold[L] {
	if h := e.of(o, Write); h != nil {
		return h
	}
	if e.hold.owes(o) {
		return e.hold
	}
	for _, h := range e.lost {
		if h.owes(o) {
			return h
		}
	}
	return nil
}

func (t *Table[L]) exitLocked(s *shard[L], e *entry[L], name string, h *Hold[L]) Outcome {
	h.count--
	if h.State() == Lost {
		if h.count == 0 {
			e.drop(h)
			t.promoteLocked(s, name, e) // who waited for this unlock may go on
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
		if token, ok := t.Pass(h.Lease, now); ok {
			e.queue.remove(w)
			e.giveLocked(w, h.Lease, token, now).Passed = true
			w.C <- struct{}{}
			return Passed
		}
	}
	e.leaving = true
	return Release
}
