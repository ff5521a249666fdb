package arbiter

// A Waiter is one call of Lock. Waiter of a table returns it, and Free takes it back.
type Waiter[L comparable] struct {
	Via      *Handle[L]
	Owner    *Owner
	Passable bool          // may take over another goroutine's lease, or share it as a reader
	Inside   bool          // a reader whose caller reads: it does not wait for writers, who would wait for that caller
	Class    int64         // of the leases it takes over; see Rules.Pass
	Place    L             // what the release before has taken for this contender; see ReleasedTo
	C        chan struct{} // receives when the waiter is granted the lock or becomes the contender, or a contending reader must ask again

	// guarded by the mutex of Via's shard
	role       role
	refused    bool  // the last answer of Redis, see Blocked
	err        error // the same
	hold       *Hold[L]
	next, prev *Waiter[L]
}

type role uint8

const (
	idle       role = iota
	queued          // waits for a goroutine of this process
	contending      // asks Redis
	apart           // a reader that asks Redis for itself, beside its side's contender
	granted
)

// Waiter returns a waiter for one call of Lock by o.
func (t *Table[L]) Waiter(via *Handle[L], o *Owner, passable bool, class int64) *Waiter[L] {
	w := t.waiters.Get().(*Waiter[L])
	w.Via, w.Owner, w.Passable, w.Class = via, o, passable, class
	return w
}

// Free takes back a waiter that is neither queued nor contending.
func (t *Table[L]) Free(w *Waiter[L]) {
	select {
	case <-w.C:
	default:
	}
	*w = Waiter[L]{C: w.C}
	t.waiters.Put(w)
}

// signal signals w.
func (w *Waiter[L]) signal() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// eligible reports whether w may have the lock now.
func (w *Waiter[L]) eligible() bool { return w.Via.admits(w.Owner) }

// enters reports whether w enters a hold of its owner again.
func (w *Waiter[L]) reenters(h *Hold[L]) bool {
	return h != nil && h.Owner == w.Owner && !w.Owner.ofHandle
}

// takesOver reports whether w, if there is one, takes over leases of that class.
func (w *Waiter[L]) takesOver(class int64) bool { return w != nil && w.Passable && w.Class == class }

// grantLocked gives one lock of h to w, who is in no queue.
func (w *Waiter[L]) grantLocked(h *Hold[L]) {
	h.count++
	w.role, w.hold = granted, h
	w.Via.tookLocked(h)
}

// queue is a list of waiters, oldest first. The shard's mutex guards it.
type queue[L comparable] struct{ head, tail *Waiter[L] }

func (q *queue[L]) push(w *Waiter[L], r role) {
	w.role, w.prev, w.next = r, q.tail, nil
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	w.Owner.count(1)
}

func (q *queue[L]) remove(w *Waiter[L]) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.role = nil, nil, idle
	w.Owner.count(-1)
}

// contend makes the first eligible waiter contend and returns it, nil if there is none.
func (q *queue[L]) contend() *Waiter[L] {
	w := q.first()
	if w != nil {
		q.remove(w)
		w.role = contending
		w.C <- struct{}{}
	}
	return w
}

// first returns the first eligible waiter, nil if there is none.
func (q *queue[L]) first() *Waiter[L] {
	w := q.head
	for w != nil && !w.eligible() {
		w = w.next
	}
	return w
}

// admitOwner gives h to all waiters of its owner in q.
func (q *queue[L]) admitOwner(h *Hold[L]) {
	if !h.Owner.hasQueued() {
		return
	}
	for w := q.head; w != nil; {
		next := w.next
		if w.Owner == h.Owner {
			q.remove(w)
			w.grantLocked(h)
			w.C <- struct{}{}
		}
		w = next
	}
}

// Verdict is the answer to a request for the lock.
type Verdict uint8

const (
	Entered     Verdict = iota // granted: the owner held it already and has locked it once more
	Joined                     // granted: a reader shares the read lease of this process
	Ask                        // ask Redis, then call Grant or Quit
	Queued                     // wait on C, then call Answer; or call Quit
	Busy                       // refused, only to a call that does not wait
	Upgrade                    // refused: the owner only reads
	UnlockFirst                // refused: its owner must unlock first what it has lost
)

// Enter requests the side of the lock that w's handle is for. A call that does not wait gets Busy instead of
// Queued.
func (t *Table[L]) Enter(w *Waiter[L], wait bool) (v Verdict) {
	s := t.of(w.Via)
	e, now := t.lock(s, w)
	defer s.Unlock()
	if w.Via.side == Read {
		v = t.enterReaderLocked(e, w, wait, now)
	} else {
		v = t.enterWriterLocked(e, w, wait)
	}
	s.dropLocked(w.Via.name, e)
	return v
}

// lock locks the shard of the name that w wants, and returns the name's entry and the time. If
// w's owner has a hold past its deadline, on either side, that is lost first: after a pause of the process
// nobody else may have noticed yet.
func (t *Table[L]) lock(s *shard[L], w *Waiter[L]) (e *entry[L], now int64) {
	for {
		s.Lock()
		e = s.entryLocked(w.Via.name)
		h, writes := e.readHoldOf(w.Owner), e.liveLocked(w.Owner, Write)
		if h != nil || writes != nil || w.Via.side == Read {
			now = t.Now()
		}
		if h == nil || t.Certain(h.lease, now) {
			h = writes
		}
		if h == nil || t.Certain(h.lease, now) {
			return e, now
		}
		lease := h.lease
		s.Unlock()
		t.Expire(w.Via.name, lease)
	}
}

// Reenter locks the exclusive hold of owner o once more and reports true, if o has one whose
// lease is certain.
func (t *Table[L]) Reenter(via *Handle[L], o *Owner) bool {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entries[via.name]
	if e == nil || !e.heldBy(o) || o.ofHandle || !t.Certain(e.hold.lease, t.Now()) {
		return false
	}
	e.hold.count++
	via.tookLocked(e.hold)
	return true
}

func (t *Table[L]) enterWriterLocked(e *entry[L], w *Waiter[L], wait bool) Verdict {
	may := w.eligible()
	switch {
	case e.held() && w.reenters(e.hold):
		w.grantLocked(e.hold)
		return Entered
	case e.readHoldOf(w.Owner) != nil:
		return Upgrade
	case !may && !(wait && w.Owner.ofHandle):
		return UnlockFirst // through a handle a call waits: the unlock may be another goroutine's
	case !wait && (e.reading() || t.Open && e.held()):
		return Busy
	case t.Open && may:
		e.queue.push(w, contending)
		return Ask
	case may && e.hold == nil && e.contender == nil:
		// Whoever is queued now is not eligible, or would be the contender.
		e.contender, w.role = w, contending
		return Ask
	case !wait:
		return Busy
	}
	e.queue.push(w, queued)
	return Queued
}

// Grant records that Redis granted the exclusive side to the contender w. It returns the hold and
// true.
//
// It may return false: the caller must release the lease. Either w got a hold through another call of its
// owner meanwhile, which is returned. Or the hold is nil and w still contends: its owner has lost a
// hold, which must be unlocked first; or another call has a newer token, so the lease has
// ended already.
func (t *Table[L]) Grant(w *Waiter[L], lease L, token int64) (*Hold[L], bool) {
	s := t.of(w.Via)
	now := t.Now()
	s.Lock()
	defer s.Unlock()
	if w.role == granted {
		return w.hold, false
	}
	e := s.entries[w.Via.name]
	if e.hold != nil && e.hold.Token > token {
		return nil, false
	}
	if e.held() { // in an open table: w has the lock now, so this one was lost unnoticed
		e.loseLocked(&s.Mutex, w.Via.name, e.hold.lease, nil)
	}
	if !w.eligible() {
		return nil, false
	}
	e.stopLocked(w)
	return e.grantLocked(w, lease, token, now), true
}

// grantLocked makes w the holder, together with all waiters of the same owner.
func (e *entry[L]) grantLocked(w *Waiter[L], lease L, token, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, lease: lease, Token: token, Since: now}
	e.hold, e.releasing = h, false
	w.grantLocked(h)
	e.queue.admitOwner(h)
	e.askAgainLocked(w.Owner)
	return h
}

// Answer returns, after C has fired, the hold that w was granted; nil if it must ask Redis now.
func (t *Table[L]) Answer(w *Waiter[L]) *Hold[L] {
	w.Via.guard.Lock()
	defer w.Via.guard.Unlock()
	return w.hold
}

// Quit ends the wait or contention of w; the next waiter becomes the contender. If w was
// granted a hold meanwhile, Quit returns it, and the caller must give it back with Return.
func (t *Table[L]) Quit(w *Waiter[L]) *Hold[L] {
	s := t.of(w.Via)
	s.Lock()
	defer s.Unlock()
	if w.role == queued || w.role == contending || w.role == apart {
		e := s.entries[w.Via.name]
		e.stopLocked(w)
		t.promoteLocked(e)
		s.dropLocked(w.Via.name, e)
	}
	return w.hold
}

// stopLocked ends the wait or contention of w.
func (e *entry[L]) stopLocked(w *Waiter[L]) {
	switch {
	case w == e.contender:
		e.contender = nil
	case w.Via.side == Write:
		e.queue.remove(w)
	case w == e.readContender:
		e.readContender = nil
	case w.role == apart:
		e.apart.remove(w)
	case w.role == queued:
		e.queued.remove(w)
	}
	w.role = idle
}

// promoteLocked makes the first eligible waiter of each side its contender, if the side needs
// one; in an open table every eligible waiter.
func (t *Table[L]) promoteLocked(e *entry[L]) {
	switch {
	case t.Open:
		for w := e.queue.head; w != nil; w = w.next {
			if w.role == queued && w.eligible() {
				w.role = contending
				w.C <- struct{}{}
			}
		}
	case e.hold == nil && e.contender == nil:
		e.contender = e.queue.contend()
	}
	if r := e.readers; r != nil && r.readContender == nil {
		r.readContender = r.queued.contend()
	}
}
