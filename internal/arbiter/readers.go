package arbiter

// readers is the read side of a name. A process has one read lease that any number of its readers
// share. A new reader joins that lease without asking Redis while the last answer of Redis, that
// no writer waits, is fresh enough, and no writer waits here; after that, one reader asks again on
// behalf of all. A reader asks for itself, apart, if its lease is not to be shared, if its owner has the
// exclusive hold, or if it does not wait.
//
// An owner has at most one read hold. All readers of a handle have one together, which counts them. If
// its lease is not shared, each of them brings one of its own, and the one that lasts longest
// stays: nobody's is cut short.
//
// The mutex of the name's shard guards it.
type readers[L comparable] struct {
	holds         *Hold[L]            // all read holds
	owners        map[*Owner]*Hold[L] // the same
	sharing       int                 // how many of them share the read lease
	read          L                   // the shared lease; zero if there is none
	joinUntil     int64               // until when readers may join it without asking Redis
	readContender *Waiter[L]          // the one reader that asks Redis on behalf of all
	queued        queue[L]            // readers that wait for the contender
	apart         queue[L]            // readers that ask for themselves
}

// The following may be called of a nil r, which has no readers.

// readHoldOf returns the read hold of o, nil if it has none.
func (r *readers[L]) readHoldOf(o *Owner) *Hold[L] {
	if r == nil {
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

func (r *readers[L]) readContenderOf() *Waiter[L] {
	if r == nil {
		return nil
	}
	return r.readContender
}

func (r *readers[L]) queuedReader() *Waiter[L] {
	if r == nil {
		return nil
	}
	return r.queued.head
}

// unread reports whether there is neither a read hold nor a call for one.
func (r *readers[L]) unread() bool {
	return r == nil || r.holds == nil && r.readContender == nil && r.queued.head == nil && r.apart.head == nil
}

// askAgainLocked has the contending readers of o, which has got a hold, ask again: they may enter
// with it, and whoever they wait for may wait for it. Those that wait for the contender, another
// owner's, ask for themselves.
func (r *readers[L]) askAgainLocked(o *Owner) {
	if r == nil || o.ofHandle {
		return
	}
	if c := r.readContender; c != nil && c.Owner == o {
		c.signal()
	}
	for q := r.queued.head; q != nil; {
		next := q.next
		if q.Owner == o {
			r.queued.remove(q)
			r.apart.push(q, apart)
		}
		q = next
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
	if t.mayJoinLocked(e, w, now) {
		return e.joinLocked(w, now)
	}
	may := w.eligible()
	switch {
	case !may && !(wait && w.Owner.ofHandle):
		return UnlockFirst
	case !wait && e.held() && !w.reenters(e.hold):
		return Busy
	case may && (!wait || !w.Passable || e.held() && w.reenters(e.hold)):
		e.apart.push(w, apart)
		return Ask
	case may && e.readContender == nil:
		e.readContender, w.role = w, contending
		return Ask
	}
	e.queued.push(w, queued)
	return Queued
}

// mayJoinLocked reports whether w may lock the read side without asking Redis.
func (t *Table[L]) mayJoinLocked(e *entry[L], w *Waiter[L], now int64) bool {
	switch {
	case e.readers == nil:
		return false
	case w.reenters(e.readHoldOf(w.Owner)):
		return true
	case !w.Passable || e.sharing == 0 || !t.Certain(e.read, now) || !w.eligible():
		return false
	case e.hold != nil:
		return e.held() && w.reenters(e.hold)
	}
	return w.Inside || now < e.joinUntil && e.contender == nil && e.queue.head == nil
}

// joinLocked locks the read side for w, who may, without asking Redis.
func (e *entry[L]) joinLocked(w *Waiter[L], now int64) Verdict {
	if h := e.readHoldOf(w.Owner); w.reenters(h) {
		w.grantLocked(h)
		return Entered
	}
	e.shareLocked(w, e.read, now)
	return Joined
}

// shareLocked gives w a hold on a read lease, or one lock more of the hold that its owner has.
func (e *entry[L]) shareLocked(w *Waiter[L], lease L, now int64) *Hold[L] {
	h := e.readHoldOf(w.Owner)
	if h == nil {
		h = &Hold[L]{Owner: w.Owner, lease: lease, Since: now, side: Read}
		e.pushReaderLocked(h)
	}
	w.grantLocked(h)
	e.queued.admitOwner(h)
	e.askAgainLocked(w.Owner)
	return h
}

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
	e, now := t.lock(s, w)
	defer s.Unlock()
	var st Standing[L]
	if t.mayJoinLocked(e, w, now) {
		e.stopLocked(w)
		e.joinLocked(w, now)
		t.promoteLocked(e)
		return w.hold, st
	}
	st.Refused = !w.eligible()
	if e.sharing > 0 && w.Passable && !e.held() {
		st.Confirm, st.Read = true, e.read
	}
	if e.heldBy(w.Owner) {
		st.Writes, st.Write = true, e.hold.lease
	}
	return nil, st
}

// GrantRead records that Redis granted the contender w a read lease, or, if it is not fresh,
// confirmed the one that this process shares. All queued readers enter with w, and others may
// join until joinUntil.
//
// It returns the hold of w, or nil if w still contends, and what the caller must release: a fresh lease
// that is not used, or the one that it replaces. A lease is not used if w's owner has lost a hold, or if
// it has a hold or this process a shared lease by now.
func (t *Table[L]) GrantRead(w *Waiter[L], lease L, fresh bool, joinUntil int64) (h *Hold[L], spare L) {
	s := t.of(w.Via)
	e, now := t.lock(s, w)
	defer s.Unlock()
	if fresh {
		spare = lease
	}
	var none L
	own := e.readHoldOf(w.Owner)
	switch {
	case !w.eligible():
		return nil, spare
	case w.reenters(own):
		e.stopLocked(w)
	case !w.Passable:
		e.stopLocked(w)
		if own == nil {
			spare = none
		} else if t.Outlasts(lease, own.lease) {
			spare = own.lease
			own.mu.Lock()
			own.lease = lease
			own.mu.Unlock()
		}
	case e.sharing > 0 && !t.Certain(e.read, now), !fresh && e.read != lease:
		return nil, spare
	default:
		e.stopLocked(w)
		if e.sharing == 0 {
			e.read, spare = lease, none
		}
		lease, e.joinUntil = e.read, joinUntil
	}
	h = e.shareLocked(w, lease, now)
	if lease == e.read && !e.held() {
		t.admitReadersLocked(e, now)
	}
	t.promoteLocked(e)
	return h, spare
}

// admitReadersLocked lets all queued readers share the read lease.
func (t *Table[L]) admitReadersLocked(e *entry[L], now int64) {
	for q := e.queued.head; q != nil; {
		if !q.Passable || !q.eligible() {
			q = q.next
			continue
		}
		e.queued.remove(q)
		e.shareLocked(q, e.read, now)
		q.C <- struct{}{}
		q = e.queued.head // sharing has admitted others of the same owner
	}
}

func (r *readers[L]) pushReaderLocked(h *Hold[L]) {
	h.next = r.holds
	if r.holds != nil {
		r.holds.prev = h
	}
	r.holds = h
	r.owners[h.Owner] = h
	if h.lease == r.read {
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
	delete(r.owners, h.Owner)
	if h.lease == r.read {
		r.sharing--
		if r.sharing == 0 {
			var none L
			r.read = none
		}
	}
}
