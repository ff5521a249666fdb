package arbiter

// Standing is what a reader that asks Redis has to tell it.
type Standing[L comparable] struct {
	Confirm bool // this process reads: ask whether more readers may join Read
	Read    L
	Writes  bool // this owner has the write hold, on Write
	Write   L
}

// Standing returns the standing of the reader w, who asks; or the hold that it has got
// because it need not ask any more.
func (t *RW[L]) Standing(w *Waiter[L]) (*Hold[L], Standing[L]) {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var st Standing[L]
	e := s.entries[w.Via.name]
	if h, _ := t.hereLocked(e, w.Via, w.Owner, w.Passable, now); h != nil {
		e.stopAskingLocked(w)
		w.role, w.hold = granted, h
		t.promoteLocked(s, w.Via.name, e)
		return h, st
	}
	if e.sharing > 0 && w.Passable && !e.writing() {
		st.Confirm, st.Read = true, e.read
	}
	if e.wroteBy(w.Owner) {
		st.Writes, st.Write = true, e.writer.Lease
	}
	return nil, st
}

// GrantWrite records that Redis gave the write side to the asker w, and ends its
// asking.
func (t *RW[L]) GrantWrite(w *Waiter[L], lease L, token int64) *Hold[L] {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	e.wAsker = nil
	return e.giveWriterLocked(w, lease, token, now, false)
}

func (e *rwEntry[L]) giveWriterLocked(w *Waiter[L], lease L, token, now int64, passed bool) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Token: token, Passed: passed, Since: now, count: 1}
	e.writer, e.leaving = h, false
	w.give(h)
	e.writers.letIn(h)
	// Readers of this owner need not wait for a reader of another one.
	if w.Owner.hasQueued() {
		for q := e.queued.head; q != nil; {
			next := q.next
			if q.Owner == w.Owner {
				e.ownLocked(q)
			}
			q = next
		}
	}
	return h
}

// ownLocked makes a queued reader ask for itself.
func (e *rwEntry[L]) ownLocked(q *Waiter[L]) {
	e.queued.remove(q)
	e.own++
	q.role, q.own = asking, true
	q.C <- struct{}{}
}

// GrantRead records that Redis gave the asker w a read lease, or, if it is not fresh,
// confirmed the one that this process shares; and ends w's asking. Everybody who is
// queued enters with it, and others may join until ride.
//
// It returns the hold of w, if it has one now, and else w goes on asking; and whether a
// fresh lease is used: it is not if w's owner, or this process, has got another one in
// the meantime.
func (t *RW[L]) GrantRead(w *Waiter[L], lease L, fresh bool, ride int64) (h *Hold[L], used bool) {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	switch {
	case e.readBy(w.Owner) != nil:
		h = e.joinLocked(w.Via, w.Owner, lease, now)
	case !w.Passable:
		h, used = e.joinLocked(w.Via, w.Owner, lease, now), true
	case fresh && e.sharing > 0, !fresh && (e.read != lease || !t.Certain(lease, now)):
		return nil, false
	default:
		e.read, e.ride = lease, ride
		h, used = e.joinLocked(w.Via, w.Owner, lease, now), fresh
		if !e.writing() {
			e.letReadersInLocked(now)
		}
	}
	e.stopAskingLocked(w)
	w.role, w.hold = granted, h
	t.promoteLocked(s, w.Via.name, e)
	return h, used
}

// letReadersInLocked gives the shared read lease to everybody who is queued for it.
func (e *rwEntry[L]) letReadersInLocked(now int64) {
	for q := e.queued.head; q != nil; {
		if !q.Passable || !e.eligible(q) {
			q = q.next
			continue
		}
		e.queued.remove(q)
		q.role, q.hold = granted, e.joinLocked(q.Via, q.Owner, e.read, now)
		q.C <- struct{}{}
		q = e.queued.head // joining has let in others of the same owner
	}
}

// Refused records that Redis refused the asker w, or that it could not be asked. Who is
// queued only for that answer has it then, or must ask for itself.
func (t *RW[L]) Refused(w *Waiter[L], failed bool) {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if e.rAsker != w || w.told == refusal && !failed {
		return
	}
	w.told = refusal
	if failed {
		w.told = failure
	}
	for q := e.queued.head; q != nil; {
		next := q.next
		switch {
		case !q.once:
		case failed:
			e.ownLocked(q)
		default:
			e.queued.remove(q)
			q.C <- struct{}{}
		}
		q = next
	}
}

func (e *rwEntry[L]) stopAskingLocked(w *Waiter[L]) {
	switch {
	case w == e.wAsker:
		e.wAsker = nil
	case w == e.rAsker:
		e.rAsker = nil
	case w.own:
		e.own--
		w.own = false
	case w.role == queued && w.side == Read:
		e.queued.remove(w)
	case w.role == queued:
		e.writers.remove(w)
	}
	w.role = idle
}

// Answer is asked after C has fired: the hold that w was granted, or whether it is to
// ask now. Neither means that it was refused, which happens only to a call that does
// not wait.
func (t *RW[L]) Answer(w *Waiter[L]) (h *Hold[L], ask bool) {
	w.Via.mu.Lock()
	defer w.Via.mu.Unlock()
	return w.hold, w.role == asking
}

// Quit ends the waiting or asking of w; the turn goes to the next. It returns the
// hold that w was granted meanwhile: one lock of it that the caller has to end.
func (t *RW[L]) Quit(w *Waiter[L]) *Hold[L] {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if w.role == queued || w.role == asking {
		e.stopAskingLocked(w)
		t.promoteLocked(s, w.Via.name, e)
	}
	return w.hold
}

// promoteLocked makes the first waiting writer and the first waiting reader ask
// Redis, where none does.
func (t *RW[L]) promoteLocked(s *rwShard[L], name string, e *rwEntry[L]) {
	if e.writer == nil && e.wAsker == nil {
		if w := e.first(&e.writers); w != nil {
			e.writers.remove(w)
			e.wAsker, w.role = w, asking
			w.C <- struct{}{}
		}
	}
	if e.rAsker == nil {
		if w := e.first(&e.queued); w != nil {
			e.queued.remove(w)
			e.rAsker, w.role = w, asking
			w.C <- struct{}{}
		}
	}
	s.dropLocked(name, e)
}

func (e *rwEntry[L]) first(q *queue[L]) *Waiter[L] {
	w := q.head
	for w != nil && !e.eligible(w) {
		w = w.next
	}
	return w
}
