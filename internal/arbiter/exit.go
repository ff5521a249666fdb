package arbiter

// Outcome is the result of an unlock.
type Outcome uint8

const (
	NotHeld Outcome = iota // this owner holds nothing here
	WasLost                // the hold had been lost
	Kept                   // the owner had locked more than once, and still holds it
	Passed                 // the next goroutine of this process has the lease now
	Release                // the caller must release it in Redis; of an exclusive one Released must follow
	Expired                // its lease had run out unnoticed: the hold is lost as of now
	Left                   // the hold ended; other readers of this process share its lease
)

// Exit is one unlock of a side through via. With an owner it is for that owner's hold. Without
// one it is for the newest hold taken through via; attribution.go says what happens if one of
// them was lost. Exit returns the hold unless the outcome is NotHeld. Its owner differs from o
// only if the unlock was without an owner, or paid a debt of o. It also returns the holds that
// were lost, which happens only if the outcome is Expired.
func (t *Table[L]) Exit(via *Handle[L], o *Owner, side Side) (h *Hold[L], out Outcome, lost []*Hold[L]) {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entryLocked(via.name)
	defer s.dropLocked(via.name, e)
	if o == nil {
		h = via.ownerlessLocked()
	} else if h = e.liveLocked(o, side); h == nil {
		via, h = via.owedLocked(o, side)
	}
	out, lost = t.exitLocked(s, e, via, h)
	return h, out, lost
}

// Return gives back one lock of h, which was granted to a call that has been cancelled. Another
// goroutine of the owner, whose own hold was lost, or another anonymous reader, may have unlocked
// h meanwhile: then Return counts for the hold that this goroutine has left. It returns what Exit
// does: the outcome is that of the hold that it has ended.
func (t *Table[L]) Return(via *Handle[L], h *Hold[L]) (ended *Hold[L], out Outcome, lost []*Hold[L]) {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entryLocked(via.name)
	defer s.dropLocked(via.name, e)
	switch {
	case h.count > 0:
	case h.Owner != nil:
		via, h = via.owedLocked(h.Owner, h.side)
	case via.anonymousLocked() != nil:
		h = via.ownerlessLocked()
	default:
		h = nil
	}
	out, lost = t.exitLocked(s, e, via, h)
	return h, out, lost
}

// exitLocked counts one unlock for h.
func (t *Table[L]) exitLocked(s *shard[L], e *entry[L], via *Handle[L], h *Hold[L]) (out Outcome, lost []*Hold[L]) {
	switch {
	case h == nil:
		return NotHeld, nil
	case h.State() == Lost:
		if h.unlockLocked() {
			t.promoteLocked(e) // calls that wait for this unlock may go on
		}
		return WasLost, nil
	case h.count > 1 && h.Owner != nil:
		h.count--
		return Kept, nil
	}
	// Anonymous readers have one hold together, so each unlock ends one reader's whole hold.
	now := t.Now()
	if !t.Certain(h.Lease, now) {
		lost = e.loseLocked(&s.guard, via.name, h.Lease)
		h.unlockLocked()
		t.promoteLocked(e)
		return Expired, lost
	}
	h.count--
	switch {
	case h.count > 0:
		return Left, nil
	case h.side == Read:
		return t.exitReaderLocked(e, via, h, now), nil
	}
	return t.exitWriterLocked(e, h, now), nil
}

// exitReaderLocked ends a read hold, whose last unlock has come.
func (t *Table[L]) exitReaderLocked(e *entry[L], via *Handle[L], h *Hold[L], now int64) Outcome {
	if h.Owner != nil || !via.partLocked(h, now, t.Ends) {
		h.End(Ended)
	}
	e.dropReaderLocked(h)
	if h.Lease == e.read {
		return Left
	}
	return Release
}

// exitWriterLocked ends the exclusive hold. It passes the lease to the next waiter of this
// process, unless readers wait, who go first, or the owner reads on or is about to: Redis may be
// granting it the read side under this very lease.
func (t *Table[L]) exitWriterLocked(e *entry[L], h *Hold[L], now int64) Outcome {
	h.End(Ended)
	if w := e.queue.first(); w != nil && w.Passable && e.unread() {
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

// Released reports the end of the release of an exclusive lease that Exit left to the caller. The
// next waiter becomes the contender.
func (t *Table[L]) Released(name string, lease L) {
	var none L
	t.ReleasedTo(name, lease, none, 0)
}

// Awaits reports whether the next waiter for an exclusive lease that is being released would take
// over one of that class, and no reader of this process wants to go first.
func (t *Table[L]) Awaits(name string, class int64) bool {
	s := t.shard(name)
	s.Lock()
	defer s.Unlock()
	e := s.entries[name]
	return e != nil && e.releasing && e.unread() && e.queue.first().takesOver(class)
}

// ReleasedTo is Released with something that the release has taken in Redis for the next
// contender, unless place is zero. It reports whether there is one that takes leases of that class
// over. It finds place in its Waiter.
func (t *Table[L]) ReleasedTo(name string, lease, place L, class int64) (taken bool) {
	s := t.shard(name)
	s.Lock()
	defer s.Unlock()
	e := s.entries[name]
	if e == nil || e.hold == nil || e.hold.Lease != lease || !e.releasing {
		return false // lost meanwhile, or a read lease
	}
	e.hold, e.releasing = nil, false
	t.promoteLocked(e)
	if w := e.contender; w.takesOver(class) {
		w.Place, taken = place, true
	}
	s.dropLocked(name, e)
	return taken
}

// Lose ends every hold on lease before its unlock, and returns them: none if the lease is not
// current or its last unlock has been called.
func (t *Table[L]) Lose(name string, lease L) []*Hold[L] {
	s := t.shard(name)
	s.Lock()
	defer s.Unlock()
	e := s.entries[name]
	if e == nil {
		return nil
	}
	lost := e.loseLocked(&s.guard, name, lease)
	t.promoteLocked(e)
	s.dropLocked(name, e)
	return lost
}
