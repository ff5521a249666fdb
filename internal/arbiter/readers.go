package arbiter

// readers is the read side of a name. A process has one read lease that any number of its readers
// share. A new reader joins that lease without asking Redis while the last answer of Redis, that
// no writer waits, is fresh enough, and no writer waits here; after that, one reader asks again on
// behalf of all. A reader whose lease is not to be shared, or that is under its owner's exclusive
// hold, contends separately for a lease of its own.
//
// An owner has at most one read hold. All anonymous readers through one handle that share the
// lease have one together: nothing tells which of them unlocks, and what a handle says of its
// hold must be true for each of them. For those with leases of their own see anonymous.go.
//
// The mutex of the name's shard guards it.
type readers[L comparable] struct {
	holds         *Hold[L]            // all read holds
	owners        map[*Owner]*Hold[L] // those with an owner
	sharing       int                 // how many of them share the read lease
	read          L                   // the shared lease; zero if there is none
	joinUntil     int64               // until when readers may join it without asking Redis
	readContender *Waiter[L]          // the one reader that asks Redis on behalf of all
	queued        queue[L]            // readers that wait for the contender
	apart         queue[L]            // readers that contend separately
}

// The following may be called of a nil r, which has no readers.

// readHoldOf returns the read hold of o, nil if it has none.
func (r *readers[L]) readHoldOf(o *Owner) *Hold[L] {
	if r == nil || o == nil {
		return nil
	}
	return r.owners[o]
}

// firstReader returns the first of the read holds.
func (r *readers[L]) firstReader() *Hold[L] {
	if r == nil {
		return nil
	}
	return r.holds
}

func (r *readers[L]) reading() bool { return r.firstReader() != nil }

// unread reports whether there is neither a read hold nor a call for one.
func (r *readers[L]) unread() bool {
	return r == nil || r.holds == nil && r.readContender == nil && r.queued.head == nil && r.apart.head == nil
}

// separateOwnerLocked makes the queued readers of o, which has got the exclusive hold, contend
// separately: they need not wait for another owner's reader.
func (r *readers[L]) separateOwnerLocked(o *Owner) {
	if r == nil || !o.hasQueued() {
		return
	}
	for q := r.queued.head; q != nil; {
		next := q.next
		if q.Owner == o {
			r.separateLocked(q)
		}
		q = next
	}
}

// separateLocked makes a queued reader contend separately.
func (r *readers[L]) separateLocked(q *Waiter[L]) {
	r.queued.remove(q)
	r.contendLocked(q)
	q.C <- struct{}{}
}

// contendLocked makes w, which is in no queue, contend separately.
func (r *readers[L]) contendLocked(w *Waiter[L]) {
	r.apart.push(w, contending)
	w.separate = true
}

// askAgainLocked has the contending readers of o, which has got a hold, ask again: they may enter
// with it, and whoever they wait for may wait for it.
func (r *readers[L]) askAgainLocked(o *Owner) {
	if r == nil || o == nil {
		return
	}
	if c := r.readContender; c != nil && c.Owner == o {
		c.signal()
	}
	for w := r.apart.head; w != nil; w = w.next {
		if w.Owner == o {
			w.signal()
		}
	}
}

func (t *Table[L]) enterReaderLocked(e *entry[L], w *Waiter[L], wait bool, now int64) Verdict {
	if e.readers == nil {
		e.readers = &readers[L]{owners: make(map[*Owner]*Hold[L])}
	}
	if h, v := t.enterLocalLocked(e, w, now); h != nil {
		w.role, w.hold = granted, h
		return v
	}
	may := w.eligible()
	switch {
	case !may && (w.Owner != nil || !wait):
		return UnlockFirst
	case e.heldBy(w.Owner):
		e.contendLocked(w)
		return Ask
	case !wait && e.held():
		return Busy
	case !w.Passable && may, !wait && e.readContender != nil && e.readContender.answer == failure:
		e.contendLocked(w)
		return Ask
	case e.readContender == nil && may:
		e.readContender, w.role = w, contending
		return Ask
	case !wait && e.readContender.answer == refusal:
		return Busy
	}
	w.oneShot = !wait
	e.queued.push(w, queued)
	return Queued
}

// enterLocalLocked locks the read side for w without asking Redis, if it can.
func (t *Table[L]) enterLocalLocked(e *entry[L], w *Waiter[L], now int64) (*Hold[L], Verdict) {
	h, v := t.joinLocalLocked(e, w.Via, w.Owner, w.Passable, now)
	if h == nil && w.Inside && w.Passable && e.sharing > 0 && t.Certain(e.read, now) && e.hold == nil && w.eligible() {
		return t.joinLocked(e, w.Via, w.Owner, e.read, now), Joined
	}
	return h, v
}

// Join locks the read side for o without asking Redis, if o reads already or may share the
// read lease, and reports whether it did. A nil o is anonymous.
func (t *Table[L]) Join(via *Handle[L], o *Owner, shares bool) bool {
	s := t.of(via)
	now := t.Now()
	s.Lock()
	defer s.Unlock()
	e := s.entries[via.name]
	if e == nil || e.readers == nil {
		return false
	}
	h, _ := t.joinLocalLocked(e, via, o, shares, now)
	return h != nil
}

// joinLocalLocked locks the read side without asking Redis, if it can.
func (t *Table[L]) joinLocalLocked(e *entry[L], via *Handle[L], o *Owner, shares bool, now int64) (*Hold[L], Verdict) {
	if h := e.readHoldOf(o); h != nil {
		if !t.Certain(h.Lease, now) {
			return nil, Busy
		}
		h.count++
		via.noteLocked(h)
		return h, Entered
	}
	switch {
	case !shares || e.sharing == 0 || !t.Certain(e.read, now) || !via.admitsLocked(o):
	case e.heldBy(o), now < e.joinUntil && e.hold == nil && e.contender == nil && e.queue.head == nil:
		return t.joinLocked(e, via, o, e.read, now), Joined
	}
	return nil, Busy
}

// joinLocked gives one lock on a read lease to o, or to the anonymous readers through via.
func (t *Table[L]) joinLocked(e *entry[L], via *Handle[L], o *Owner, lease L, now int64) *Hold[L] {
	h := e.readHoldOf(o)
	if o == nil {
		h = via.anonymousLocked()
	}
	if h == nil || o == nil && h.Lease != lease {
		h = &Hold[L]{Owner: o, Lease: lease, Since: now, side: Read}
		e.pushReaderLocked(h)
		if o == nil {
			via.pushAnonymousLocked(h, t.Ends)
		}
	}
	h.count++
	via.noteLocked(h)
	e.queued.admitOwner(h)
	e.askAgainLocked(o)
	return h
}

func (r *readers[L]) pushReaderLocked(h *Hold[L]) {
	h.next = r.holds
	if r.holds != nil {
		r.holds.prev = h
	}
	r.holds = h
	if h.Owner != nil {
		r.owners[h.Owner] = h
	}
	if h.Lease == r.read {
		r.sharing++
	}
}

func (r *readers[L]) dropReaderLocked(h *Hold[L]) {
	if h.prev == nil {
		r.holds = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.next, h.prev = nil, nil
	if h.Owner != nil {
		delete(r.owners, h.Owner)
	}
	if h.Lease == r.read {
		r.sharing--
		if r.sharing == 0 {
			var none L
			r.read = none
		}
	}
}
