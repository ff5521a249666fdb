package arbiter

// Standing is what a reader must tell Redis when it asks.
type Standing[L comparable] struct {
	Confirm bool // this process reads: only ask whether more readers may join Read
	Read    L
	Writes  bool // the owner has the write hold, on Write
	Write   L
	Refused bool // the owner has lost a hold, which it must unlock first
}

// Standing returns the standing of the contending reader w; or a hold, if it need not ask any
// more.
func (rw *RW[L]) Standing(w *Waiter[L]) (*Hold[L], Standing[L]) {
	s := &rw.shards[w.Via.shard]
	e, now := rw.lock(s, w.Via.name, w.Owner)
	defer s.mu.Unlock()
	var st Standing[L]
	if h, _ := rw.joinLocalLocked(e, w.Via, w.Owner, w.Passable, now); h != nil {
		e.stopContendingLocked(w)
		w.role, w.hold = granted, h
		rw.promoteLocked(s, w.Via.name, e)
		return h, st
	}
	st.Refused = e.lostBy(w.Owner)
	if e.sharing > 0 && w.Passable && !e.writing() {
		st.Confirm, st.Read = true, e.read
	}
	if e.writtenBy(w.Owner) {
		st.Writes, st.Write = true, e.writer.Lease
	}
	return nil, st
}

// GrantWrite records that Redis granted the write side to the contender w.
func (rw *RW[L]) GrantWrite(w *Waiter[L], lease L, token int64) *Hold[L] {
	s := &rw.shards[w.Via.shard]
	now := rw.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	e.writeContender = nil
	return e.grantWriterLocked(w, lease, token, now, false)
}

// grantWriterLocked makes w the writer, together with all waiting writers of the same owner.
func (e *rwEntry[L]) grantWriterLocked(w *Waiter[L], lease L, token, now int64, passed bool) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Token: token, Passed: passed, Since: now, count: 1}
	e.writer, e.releasing = h, false
	w.grant(h)
	e.writers.admitOwner(h)
	// Readers of this owner need not wait for another owner's reader.
	if w.Owner.hasQueued() {
		for q := e.queued.head; q != nil; {
			next := q.next
			if q.Owner == w.Owner {
				e.separateLocked(q)
			}
			q = next
		}
	}
	return h
}

// separateLocked makes a queued reader contend for itself.
func (e *rwEntry[L]) separateLocked(q *Waiter[L]) {
	e.queued.remove(q)
	e.separate++
	q.role, q.separate = contending, true
	q.C <- struct{}{}
}

// GrantRead records that Redis granted the contender w a read lease, or, if it is not fresh,
// confirmed the one that this process shares. All queued readers enter with w, and others may
// join until joinUntil.
//
// It returns the hold of w, or nil if w still contends; and whether a fresh lease is used. It
// is not if w's owner, or this process, got another one in the meantime.
func (rw *RW[L]) GrantRead(w *Waiter[L], lease L, fresh bool, joinUntil int64) (h *Hold[L], used bool) {
	s := &rw.shards[w.Via.shard]
	e, now := rw.lock(s, w.Via.name, w.Owner)
	defer s.mu.Unlock()
	switch {
	case e.lostBy(w.Owner):
		return nil, false
	case e.readHoldOf(w.Owner) != nil:
		h = rw.joinLocked(e, w.Via, w.Owner, lease, now)
	case !w.Passable:
		h, used = rw.joinLocked(e, w.Via, w.Owner, lease, now), true
	case fresh && e.sharing > 0, !fresh && (e.read != lease || !rw.Certain(lease, now)):
		return nil, false
	default:
		e.read, e.joinUntil = lease, joinUntil
		h, used = rw.joinLocked(e, w.Via, w.Owner, lease, now), fresh
		if !e.writing() {
			rw.admitReadersLocked(e, now)
		}
	}
	e.stopContendingLocked(w)
	w.role, w.hold = granted, h
	rw.promoteLocked(s, w.Via.name, e)
	return h, used
}

// admitReadersLocked lets all queued readers share the read lease.
func (rw *RW[L]) admitReadersLocked(e *rwEntry[L], now int64) {
	for q := e.queued.head; q != nil; {
		if !q.Passable || !e.eligible(q) {
			q = q.next
			continue
		}
		e.queued.remove(q)
		q.role, q.hold = granted, rw.joinLocked(e, q.Via, q.Owner, e.read, now)
		q.C <- struct{}{}
		q = e.queued.head // joining has admitted others of the same owner
	}
}

// Refused records that Redis refused the contender w, or with failed that it did not answer.
// Calls that wait only for that answer are refused too, or after a failure contend separately.
func (rw *RW[L]) Refused(w *Waiter[L], failed bool) {
	s := &rw.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if e.readContender != w || w.answer == refusal && !failed {
		return
	}
	w.answer = refusal
	if failed {
		w.answer = failure
	}
	for q := e.queued.head; q != nil; {
		next := q.next
		switch {
		case !q.oneShot:
		case failed:
			e.separateLocked(q)
		default:
			e.queued.remove(q)
			q.C <- struct{}{}
		}
		q = next
	}
}

// stopContendingLocked ends the wait or contention of w.
func (e *rwEntry[L]) stopContendingLocked(w *Waiter[L]) {
	switch {
	case w == e.writeContender:
		e.writeContender = nil
	case w == e.readContender:
		e.readContender = nil
	case w.separate:
		e.separate--
		w.separate = false
	case w.role == queued && w.side == Read:
		e.queued.remove(w)
	case w.role == queued:
		e.writers.remove(w)
	}
	w.role = idle
}

// Answer returns, after C has fired, the hold that w was granted, or whether it must ask Redis
// now. Neither means that it was refused, which happens only to a call that does not wait.
func (rw *RW[L]) Answer(w *Waiter[L]) (h *Hold[L], ask bool) {
	w.Via.mu.Lock()
	defer w.Via.mu.Unlock()
	return w.hold, w.role == contending
}

// Quit ends the wait or contention of w; the next waiter becomes the contender. If w was
// granted a hold meanwhile, Quit returns it, and the caller must give it back with Return.
func (rw *RW[L]) Quit(w *Waiter[L]) *Hold[L] {
	s := &rw.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if w.role == queued || w.role == contending {
		e.stopContendingLocked(w)
		rw.promoteLocked(s, w.Via.name, e)
	}
	return w.hold
}

// promoteLocked makes the first eligible waiter of each side its contender, if the side needs
// one.
func (rw *RW[L]) promoteLocked(s *rwShard[L], name string, e *rwEntry[L]) {
	if e.writer == nil && e.writeContender == nil {
		if w := e.first(&e.writers); w != nil {
			e.writers.remove(w)
			e.writeContender, w.role = w, contending
			w.C <- struct{}{}
		}
	}
	if e.readContender == nil {
		if w := e.first(&e.queued); w != nil {
			e.queued.remove(w)
			e.readContender, w.role = w, contending
			w.C <- struct{}{}
		}
	}
	s.dropLocked(name, e)
}

// first returns the first eligible waiter of q.
func (e *rwEntry[L]) first(q *queue[L]) *Waiter[L] {
	w := q.head
	for w != nil && !e.eligible(w) {
		w = w.next
	}
	return w
}
