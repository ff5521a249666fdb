package arbiter

import "slices"

// Exit is one unlock of a side through via, by the rules of Table.Exit. It returns also
// how many holds have been lost, which happens only if the outcome is Expired.
func (t *RW[L]) Exit(via *Handle[L], o *Owner, side Side) (h *Hold[L], out Outcome, lost int) {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld, 0
	}
	h = e.findLocked(via, o, side)
	if h == nil {
		return nil, NotHeld, 0
	}
	out, lost = t.exitLocked(s, e, via.name, h)
	return h, out, lost
}

// Return ends one lock of h, which its taker was granted but does not want, as
// Table.Return does. If it was anonymous, another one may have ended h through via, and
// Return ends that one's hold. It returns what Exit does.
func (t *RW[L]) Return(via *Handle[L], h *Hold[L]) (ended *Hold[L], out Outcome, lost int) {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld, 0
	}
	if h.count == 0 {
		if h.Owner == nil {
			h = via.anonymousLocked()
		} else {
			h = e.owedLocked(h.Owner, h.side)
		}
	}
	if h == nil {
		return nil, NotHeld, 0
	}
	out, lost = t.exitLocked(s, e, via.name, h)
	return h, out, lost
}

func (e *rwEntry[L]) findLocked(via *Handle[L], o *Owner, side Side) *Hold[L] {
	if o == nil {
		last := via.lastLocked()
		if h := via.anonymousLocked(); h != nil {
			last = h // another owner's, however new, is not for it
		}
		return e.ownerless(via, last)
	}
	if side == Write && e.wroteBy(o) {
		return e.writer
	}
	if h := e.readBy(o); side == Read && h != nil {
		return h
	}
	return e.owedLocked(o, side)
}

// owedLocked returns what awaits an unlock of o that has no live hold: its lost hold, or
// one for which the unlock of that was taken.
func (e *rwEntry[L]) owedLocked(o *Owner, side Side) *Hold[L] {
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

func (t *RW[L]) exitLocked(s *rwShard[L], e *rwEntry[L], name string, h *Hold[L]) (out Outcome, lost int) {
	if h.count == 1 {
		h.handOn()
	}
	if h.State() == Lost {
		h.count--
		if h.count == 0 {
			e.drop(h)
			t.promoteLocked(s, name, e)
		}
		return WasLost, 0
	}
	// Of a hold that anonymous readers have together, each lock is the whole of one's hold.
	if h.count > 1 && h.Owner != nil {
		h.count--
		return Kept, 0
	}
	now := t.Now()
	if !t.Certain(h.Lease, now) {
		lost = e.loseLocked(h.Lease)
		h.count--
		if h.count == 0 {
			e.drop(h)
		}
		t.promoteLocked(s, name, e)
		return Expired, lost
	}
	h.count--
	switch {
	case h.count > 0:
		return Left, 0
	case h.side == Read:
		return e.exitReaderLocked(s, name, h), 0
	}
	return t.exitWriterLocked(e, h, now), 0
}

func (e *rwEntry[L]) exitReaderLocked(s *rwShard[L], name string, h *Hold[L]) Outcome {
	h.End(Ended)
	e.dropReaderLocked(h)
	if h.Lease == e.read {
		return Left
	}
	s.dropLocked(name, e)
	return Release
}

// exitWriterLocked ends the write hold. Another writer of this process may have it,
// unless readers wait, who go first, or its owner reads on; or is about to, for Redis
// may just be granting it that for the sake of this lease.
func (t *RW[L]) exitWriterLocked(e *rwEntry[L], h *Hold[L], now int64) Outcome {
	h.End(Ended)
	w := e.writers.head
	read := e.rAsker != nil || e.queued.head != nil || e.own > 0 || e.readers != nil
	if w != nil && e.eligible(w) && w.Passable && !read {
		if token, ok := t.Pass(h.Lease, now); ok {
			e.writers.remove(w)
			e.giveWriterLocked(w, h.Lease, token, now, true)
			w.C <- struct{}{}
			return Passed
		}
	}
	e.leaving = true
	return Release
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

// Lose ends every hold on lease before its unlock, and returns how many there were,
// each of the anonymous readers that have one together counted.
func (t *RW[L]) Lose(name string, lease L) int {
	s := &t.shards[t.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return 0
	}
	lost := e.loseLocked(lease)
	t.promoteLocked(s, name, e)
	return lost
}

func (e *rwEntry[L]) loseLocked(lease L) (lost int) {
	if e.writer != nil && e.writer.Lease == lease {
		if !e.leaving {
			e.writer.End(Lost)
			e.lost = append(e.lost, e.writer)
			lost++
		}
		e.writer, e.leaving = nil, false
	}
	for h := e.readers; h != nil; {
		next := h.next
		if h.Lease == lease {
			e.dropReaderLocked(h)
			h.End(Lost)
			e.lost = append(e.lost, h)
			lost++
			if h.Owner == nil {
				lost += h.count - 1
			}
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
	e := s.entries[name]
	if e == nil {
		return nil
	}
	var ls []L
	if e.writing() {
		ls = append(ls, e.writer.Lease)
	}
	if e.sharing > 0 {
		ls = append(ls, e.read)
	}
	for h := e.readers; h != nil; h = h.next {
		if h.Lease != e.read && !slices.Contains(ls, h.Lease) {
			ls = append(ls, h.Lease)
		}
	}
	return ls
}

// Read returns the read hold of o, or that of the anonymous readers through via; nil if
// there is none whose unlock is outstanding.
func (t *RW[L]) Read(via *Handle[L], o *Owner) *Hold[L] {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	switch {
	case e == nil:
		return nil
	case o == nil:
		return via.anonymousLocked()
	case e.readBy(o) != nil:
		return e.readBy(o)
	}
	return e.of(o, Read)
}

// Waiting reports how many calls are queued for a side of name, askers not counted,
// and Len how many names the arbiter knows. Both are for tests.
func (t *RW[L]) Waiting(name string, side Side) (n int) {
	s := &t.shards[t.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		q := &e.writers
		if side == Read {
			q = &e.queued
		}
		for w := q.head; w != nil; w = w.next {
			n++
		}
	}
	return n
}

// Len reports how many names the arbiter knows.
func (t *RW[L]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
