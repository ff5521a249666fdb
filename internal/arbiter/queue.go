package arbiter

import "slices"

// A Waiter is one call of Lock. Waiter of a table returns it, and Free takes it back.
type Waiter[L comparable] struct {
	Lock     *Lock[L]
	Owner    *Owner        // nil: the call has none
	Due      bool          // an Unlock of the lock is to end what it is granted
	Passable bool          // may take over another goroutine's lease, or share it as a reader
	Inside   bool          // a reader whose caller reads: it does not wait for writers, who would wait for that caller
	Class    int64         // of the leases it takes over; see Rules.Pass
	Keep     int64         // for how long the lease may be kept after the hold; 0: not at all
	Kept     L             // see Stale
	Place    L             // what the release before has taken for this contender; see Released
	C        chan struct{} // receives when the waiter is granted the lock or becomes the contender, or a contending reader must ask again

	// guarded by the mutex of Lock's shard
	in      *queue[L] // where it is queued or asks for itself; nil for a contender, and after the end
	refused bool      // the last answer of Redis, see Blocked
	err     error     // the same
	hold    *Hold[L]  // that it was granted
	queued  bool      // it has been in a queue of this process, from since on
	since   int64
}

// Waiter returns a waiter for one call of Lock by o.
func (t *Table[L]) Waiter(l *Lock[L], o *Owner, passable bool, class int64) *Waiter[L] {
	w := t.waiters.Get().(*Waiter[L])
	w.Lock, w.Owner, w.Passable, w.Class = l, o, passable, class
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
func (w *Waiter[L]) eligible() bool { return !w.Lock.MustUnlockFirst(w.Owner) }

// reenters reports whether w enters a hold of its owner again.
func (w *Waiter[L]) reenters(h *Hold[L]) bool {
	return h != nil && h.Owner == w.Owner && w.Owner.enters
}

// grant gives h to w, who waits no more.
func (w *Waiter[L]) grant(h *Hold[L]) {
	h.enter(w.Due)
	w.hold = h
}

// enter counts one call more, which an Unlock of the lock is to end if due.
func (h *Hold[L]) enter(due bool) {
	h.count++
	if due {
		h.locks.Add(1)
	}
}

// queue is a list of waiters, oldest first. The shard's mutex guards it.
type queue[L comparable] []*Waiter[L]

func (q *queue[L]) push(w *Waiter[L]) {
	*q = append(*q, w)
	w.in = q
	if w.Owner != nil {
		w.Owner.queued.Add(1)
	}
}

// enqueue has w wait in this process. Without wait it makes one attempt then, and wants no place in
// Redis.
func (e *entry[L]) enqueue(w *Waiter[L], wait bool) {
	w.Passable = w.Passable && wait
	w.queued, w.since = true, e.Now()
	e.queues[w.Lock.side].push(w)
}

// leave takes w out of the queue that it is in.
func (w *Waiter[L]) leave() {
	q := *w.in
	if q[0] == w { // however many wait behind it
		q[0], q = nil, q[1:]
	} else {
		i := slices.Index(q, w)
		q = slices.Delete(q, i, i+1)
	}
	*w.in, w.in = q, nil
	if w.Owner != nil {
		w.Owner.queued.Add(-1)
	}
}

// first returns the first eligible waiter, nil if there is none.
func (q queue[L]) first() *Waiter[L] {
	for _, w := range q {
		if w.eligible() {
			return w
		}
	}
	return nil
}

// idle reports whether nobody waits for a side, but those that ask for themselves.
func (e *entry[L]) idle(side Side) bool { return e.contenders[side] == nil && len(e.queues[side]) == 0 }

// free reports whether a side has a place for a contender.
func (e *entry[L]) free(side Side) bool {
	return e.contenders[side] == nil && (side == Read || !e.busy())
}

// ask makes w ask Redis, for itself or as the contender of its side.
func (e *entry[L]) ask(w *Waiter[L], apart bool) {
	if apart {
		e.apart.push(w)
	} else {
		e.contenders[w.Lock.side] = w
	}
}

// stop ends the wait or contention of w.
func (e *entry[L]) stop(w *Waiter[L]) {
	if w.in != nil {
		w.leave()
	} else if c := &e.contenders[w.Lock.side]; *c == w {
		*c = nil
	}
}

// promote makes the first eligible waiter of each side its contender, if the side needs
// one; in an open table every eligible waiter asks.
func (e *entry[L]) promote() {
	for side := range e.queues {
		for e.Open || e.free(Side(side)) {
			w := e.queues[side].first()
			if w == nil {
				break
			}
			w.leave()
			e.ask(w, e.Open)
			w.signal()
		}
	}
}

// admit follows up a hold that an owner has got. Other calls of the owner that wait for the same
// side have it too. Its other readers ask again, for themselves: they may enter with the hold, and
// whoever they wait for may wait for it.
func (e *entry[L]) admit(h *Hold[L]) {
	o := h.Owner
	if !o.enters {
		return
	}
	if c := e.contenders[Read]; c != nil && c.Owner == o {
		c.signal()
	}
	if c := e.contenders[Write]; c != nil && c.Owner == o && h.side == Write { // h was adopted
		e.stop(c)
		c.grant(h)
		c.signal()
	}
	if o.queued.Load() == 0 {
		return
	}
	for _, q := range []*queue[L]{&e.queues[h.side], &e.queues[Read], &e.apart} {
		for _, w := range slices.Clone(*q) {
			if w.Owner != o {
				continue
			}
			if w.Lock.side == h.side && (q != &e.apart || h.side == Write || e.Open) {
				w.leave()
				w.grant(h)
			} else if q != &e.apart {
				w.leave()
				e.apart.push(w)
			}
			w.signal()
		}
	}
}
