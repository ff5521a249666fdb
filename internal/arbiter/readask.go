package arbiter

// How a reader that contends learns what to ask Redis, and tells the answer.

// Standing is what a reader must tell Redis when it asks.
type Standing[L comparable] struct {
	Confirm bool // this process reads: only ask whether more readers may join Read
	Read    L
	Writes  bool // the owner has the exclusive hold, on Write
	Write   L
	Refused bool // the owner has lost a hold, which it must unlock first
}

// Standing returns the standing of the contending reader w; or a hold, if it need not ask any
// more.
func (t *Table[L]) Standing(w *Waiter[L]) (*Hold[L], Standing[L]) {
	s := t.of(w.Via)
	e, now := t.lock(s, w.Via.name, w.Owner, Read)
	defer s.Unlock()
	var st Standing[L]
	if h, _ := t.enterLocalLocked(e, w, now); h != nil {
		t.enteredLocked(s, e, w, h)
		return h, st
	}
	st.Refused = w.Via.lostBy(w.Owner)
	if e.sharing > 0 && w.Passable && !e.held() {
		st.Confirm, st.Read = true, e.read
	}
	if e.heldBy(w.Owner) {
		st.Writes, st.Write = true, e.hold.Lease
	}
	return nil, st
}

// enteredLocked ends the contention of the reader w, which has got h.
func (t *Table[L]) enteredLocked(s *shard[L], e *entry[L], w *Waiter[L], h *Hold[L]) {
	e.stopContendingLocked(w)
	w.role, w.hold = granted, h
	t.promoteLocked(e)
	s.dropLocked(w.Via.name, e)
}

// GrantRead records that Redis granted the contender w a read lease, or, if it is not fresh,
// confirmed the one that this process shares. All queued readers enter with w, and others may
// join until joinUntil.
//
// It returns the hold of w, or nil if w still contends; and whether a fresh lease is used. It
// is not if w's owner has lost a hold, or got another one in the meantime. If this process has a
// shared lease, which its downgraded writer may have, the readers enter with that.
func (t *Table[L]) GrantRead(w *Waiter[L], lease L, fresh bool, joinUntil int64) (h *Hold[L], used bool) {
	s := t.of(w.Via)
	e, now := t.lock(s, w.Via.name, w.Owner, Read)
	defer s.Unlock()
	switch {
	case w.Via.lostBy(w.Owner):
		return nil, false
	case e.readHoldOf(w.Owner) != nil:
		h = t.joinLocked(e, w.Via, w.Owner, lease, now)
	case !w.Passable:
		h, used = t.joinLocked(e, w.Via, w.Owner, lease, now), true
	case e.sharing > 0 && !t.Certain(e.read, now), !fresh && e.read != lease:
		return nil, false
	default:
		if e.sharing > 0 {
			lease, fresh = e.read, false
		}
		e.read, e.joinUntil = lease, joinUntil
		h, used = t.joinLocked(e, w.Via, w.Owner, lease, now), fresh
		if !e.held() {
			t.admitReadersLocked(e, now)
		}
	}
	t.enteredLocked(s, e, w, h)
	return h, used
}

// admitReadersLocked lets all queued readers share the read lease.
func (t *Table[L]) admitReadersLocked(e *entry[L], now int64) {
	for q := e.queued.head; q != nil; {
		if !q.Passable || !q.eligible() {
			q = q.next
			continue
		}
		e.queued.remove(q)
		q.role, q.hold = granted, t.joinLocked(e, q.Via, q.Owner, e.read, now)
		q.C <- struct{}{}
		q = e.queued.head // joining has admitted others of the same owner
	}
}

// Refused records that Redis refused the contender w, or with failed that it did not answer.
// Calls that wait only for that answer are refused too, or after a failure contend separately.
func (t *Table[L]) Refused(w *Waiter[L], failed bool) {
	s := t.of(w.Via)
	s.Lock()
	defer s.Unlock()
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
