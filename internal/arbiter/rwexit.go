package arbiter

import "slices"

// Exit is one unlock of a side through via, by the rules of Table.Exit.
func (t *RW[L]) Exit(via *Handle[L], o *Owner, side Side) (*Hold[L], Outcome) {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld
	}
	h := e.findLocked(via, o, side)
	if h == nil {
		return nil, NotHeld
	}
	return h, t.exitLocked(s, e, via.name, h)
}

// Return ends one lock of h, which its taker was granted but does not want, as
// Table.Return does.
func (t *RW[L]) Return(via *Handle[L], h *Hold[L]) Outcome {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return NotHeld
	}
	if h.count == 0 {
		if h = e.of(h.Owner, h.side); h == nil {
			return NotHeld
		}
	}
	return t.exitLocked(s, e, via.name, h)
}

func (e *rwEntry[L]) findLocked(via *Handle[L], o *Owner, side Side) *Hold[L] {
	if o == nil {
		return e.ownerless(via)
	}
	if side == Write && e.wroteBy(o) {
		return e.writer
	}
	if side == Read {
		if h := e.readBy(o); h != nil {
			return h
		}
	}
	if h := e.of(o, side); h != nil {
		return h
	}
	if side == Write && e.writer.owes(o) {
		return e.writer
	}
	for h := e.readers; h != nil && side == Read; h = h.next {
		if h.owes(o) {
			return h
		}
	}
	for _, h := range e.lost {
		if h.side == side && h.owes(o) {
			return h
		}
	}
	return nil
}

func (t *RW[L]) exitLocked(s *rwShard[L], e *rwEntry[L], name string, h *Hold[L]) Outcome {
	h.count--
	if h.State() == Lost {
		if h.count == 0 {
			e.drop(h)
			t.promoteLocked(s, name, e)
		}
		return WasLost
	}
	if h.count > 0 {
		return Kept
	}
	now := t.Now()
	if !t.Certain(h.Lease, now) {
		h.count++ // for loseLocked, which counts it among those to be unlocked
		e.loseLocked(h.Lease)
		h.count--
		e.drop(h)
		t.promoteLocked(s, name, e)
		return Expired
	}
	h.End(Ended)
	if h.Side() == Read {
		e.dropReaderLocked(h)
		shared := e.sharing > 0 && h.Lease == e.read
		s.dropLocked(name, e)
		if shared {
			return Kept // other readers are on the lease
		}
		return Release
	}
	// Another writer of this process may have it, unless readers wait, who go first,
	// or this owner reads on.
	w := e.writers.head
	if w != nil && e.eligible(w) && w.Passable && e.rAsker == nil && e.queued.head == nil && e.readers == nil {
		if token, ok := t.Pass(h.Lease, now); ok {
			e.writers.remove(w)
			e.giveWriterLocked(w, h.Lease, token, now).Passed = true
			w.C <- struct{}{}
			return Passed
		}
	}
	e.leaving = true
	return Release
}

func (e *rwEntry[L]) dropReaderLocked(h *Hold[L]) {
	if h.prev == nil {
		e.readers = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.next, h.prev = nil, nil
	if e.sharing > 0 && h.Lease == e.read {
		e.sharing--
		if e.sharing == 0 {
			var none L
			e.read = none
		}
	}
}

// Released ends the release of a write lease that Exit has left to the caller. That
// of a read lease needs no end.
func (t *RW[L]) Released(name string, lease L) {
	s := &t.shards[t.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil || e.writer == nil || e.writer.Lease != lease || !e.leaving {
		return
	}
	e.writer, e.leaving = nil, false
	t.promoteLocked(s, name, e)
}

// Lose ends every hold on lease before its unlock, and reports whether there was one.
func (t *RW[L]) Lose(name string, lease L) bool {
	s := &t.shards[t.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return false
	}
	lost := e.loseLocked(lease)
	t.promoteLocked(s, name, e)
	return lost
}

func (e *rwEntry[L]) loseLocked(lease L) (lost bool) {
	if e.writer != nil && e.writer.Lease == lease {
		if !e.leaving {
			lost = e.writer.End(Lost)
			e.lost = append(e.lost, e.writer)
		}
		e.writer, e.leaving = nil, false
	}
	for h := e.readers; h != nil; {
		next := h.next
		if h.Lease == lease {
			e.dropReaderLocked(h)
			lost = h.End(Lost) || lost
			e.lost = append(e.lost, h)
		}
		h = next
	}
	return lost
}

// HoldOf returns the live hold that o has of a side of the handle's name, nil if it
// has none.
func (t *RW[L]) HoldOf(via *Handle[L], o *Owner, side Side) *Hold[L] {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	switch {
	case e == nil:
		return nil
	case side == Read:
		return e.readBy(o)
	case e.wroteBy(o):
		return e.writer
	}
	return nil
}

// Leases returns the leases that live holds of name rest on.
func (t *RW[L]) Leases(name string) []L {
	s := &t.shards[t.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[name].leasesLocked(nil)
}

func (e *rwEntry[L]) leasesLocked(ls []L) []L {
	if e == nil {
		return nil
	}
	if e.writer != nil && !e.leaving {
		ls = append(ls, e.writer.Lease)
	}
	for h := e.readers; h != nil; h = h.next {
		if !slices.Contains(ls, h.Lease) {
			ls = append(ls, h.Lease)
		}
	}
	return ls
}

// Len reports how many names the arbiter knows, for tests.
func (t *RW[L]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
