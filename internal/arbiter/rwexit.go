package arbiter

// Exit is one unlock of a side through via, by the rules of Table.Exit. It also returns how
// many holds were lost, which happens only if the outcome is Expired.
func (rw *RW[L]) Exit(via *Handle[L], o *Owner, side Side) (h *Hold[L], out Outcome, lost int) {
	s := &rw.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld, 0
	}
	via, h = e.findLocked(via, o, side)
	if h == nil {
		return nil, NotHeld, 0
	}
	out, lost = rw.exitLocked(s, e, via, h)
	return h, out, lost
}

// Return gives back one lock of h, as Table.Return does, and returns what Exit does. If h is
// anonymous, another reader may have ended it through via; then Return counts as that
// reader's unlock.
func (rw *RW[L]) Return(via *Handle[L], h *Hold[L]) (ended *Hold[L], out Outcome, lost int) {
	s := &rw.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return nil, NotHeld, 0
	}
	switch {
	case h.count > 0:
	case h.Owner != nil:
		via, h = e.owedLocked(via, h.Owner, h.side)
	case via.anonymousLocked() == nil:
		return nil, NotHeld, 0
	default:
		h = e.settledLocked(via, h)
	}
	if h == nil {
		return nil, NotHeld, 0
	}
	out, lost = rw.exitLocked(s, e, via, h)
	return h, out, lost
}

// findLocked returns the hold that an unlock by o through via is for, and the handle through
// which it counts: if it settles a debt, that of the debt.
func (e *rwEntry[L]) findLocked(via *Handle[L], o *Owner, side Side) (*Handle[L], *Hold[L]) {
	if o == nil {
		first, last := via.candidatesLocked()
		return via, e.ownerless(via, first, last)
	}
	if side == Write && e.writtenBy(o) {
		return via, e.writer
	}
	if h := e.readHoldOf(o); side == Read && h != nil {
		return via, h
	}
	return e.owedLocked(via, o, side)
}

// owedLocked returns what findLocked does, for an o that has no live hold: its lost hold, or
// one that pays a debt to o.
func (e *rwEntry[L]) owedLocked(via *Handle[L], o *Owner, side Side) (*Handle[L], *Hold[L]) {
	if h := e.lostOf(o, side); h != nil {
		return via, h
	}
	if side == Write && e.writer.settle(o) != nil {
		return via, e.writer
	}
	for h := e.readers; h != nil && side == Read; h = h.next {
		if v := h.settle(o); v != nil {
			return v, e.settledLocked(v, h)
		}
	}
	for _, h := range e.lost {
		if h.side != side {
			continue
		}
		if v := h.settle(o); v != nil {
			return v, e.settledLocked(v, h)
		}
	}
	return via, nil
}

// exitLocked counts one unlock for h.
func (rw *RW[L]) exitLocked(s *rwShard[L], e *rwEntry[L], via *Handle[L], h *Hold[L]) (out Outcome, lost int) {
	name := via.name
	if h.count == 1 {
		h.passDebts(0)
	}
	if h.State() == Lost {
		h.count--
		if h.count == 0 {
			e.forget(h)
			rw.promoteLocked(s, name, e)
		}
		return WasLost, 0
	}
	// Anonymous readers have one hold together, so each unlock ends one reader's whole hold.
	if h.count > 1 && h.Owner != nil {
		h.count--
		return Kept, 0
	}
	now := rw.Now()
	if !rw.Certain(h.Lease, now) {
		lost = e.loseLocked(h.Lease)
		h.count--
		if h.count == 0 {
			e.forget(h)
		}
		rw.promoteLocked(s, name, e)
		return Expired, lost
	}
	h.count--
	switch {
	case h.count > 0:
		return Left, 0
	case h.side == Read:
		return rw.exitReaderLocked(s, e, via, h, now), 0
	}
	return rw.exitWriterLocked(e, h, now), 0
}

// exitReaderLocked ends a read hold, whose last unlock has come.
func (rw *RW[L]) exitReaderLocked(s *rwShard[L], e *rwEntry[L], via *Handle[L], h *Hold[L], now int64) Outcome {
	if h.Owner != nil || !via.partLocked(h, now, rw.Ends) {
		h.End(Ended)
	}
	e.dropReaderLocked(h)
	if h.Lease == e.read {
		return Left
	}
	s.dropLocked(via.name, e)
	return Release
}

// exitWriterLocked ends the write hold. It passes the lease to the next writer of this process,
// unless readers wait, who go first, or the owner reads on or is about to: Redis may be
// granting it the read side under this very write lease.
func (rw *RW[L]) exitWriterLocked(e *rwEntry[L], h *Hold[L], now int64) Outcome {
	h.End(Ended)
	w := e.writers.head
	read := e.readContender != nil || e.queued.head != nil || e.separate > 0 || e.readers != nil
	if w != nil && e.eligible(w) && w.Passable && !read {
		if token, ok := rw.Pass(h.Lease, w.Class, now); ok {
			e.writers.remove(w)
			e.grantWriterLocked(w, h.Lease, token, now, true)
			w.C <- struct{}{}
			return Passed
		}
	}
	e.releasing = true
	return Release
}

// Released reports the end of the release of a write lease that Exit left to the caller. That
// of a read lease need not be reported.
func (rw *RW[L]) Released(name string, lease L) {
	s := &rw.shards[rw.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil || e.writer == nil || e.writer.Lease != lease || !e.releasing {
		return
	}
	e.writer, e.releasing = nil, false
	rw.promoteLocked(s, name, e)
}

// Lose ends every hold on lease before its unlock, and returns their number. Anonymous readers
// that have one hold together count each.
func (rw *RW[L]) Lose(name string, lease L) int {
	s := &rw.shards[rw.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return 0
	}
	lost := e.loseLocked(lease)
	rw.promoteLocked(s, name, e)
	return lost
}

func (e *rwEntry[L]) loseLocked(lease L) (lost int) {
	if e.writer != nil && e.writer.Lease == lease {
		if !e.releasing {
			e.writer.End(Lost)
			e.lost = append(e.lost, e.writer)
			lost++
		}
		e.writer, e.releasing = nil, false
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
