package arbiter

import "sync"

// A Waiter is one call of Lock. Waiter of a table returns it, and Free takes it back.
type Waiter[L comparable] struct {
	Via      *Handle[L]
	Owner    *Owner        // nil: anonymous
	Passable bool          // may take over another goroutine's lease, or share it as a reader
	Inside   bool          // a reader whose caller reads: it does not wait for writers, who would wait for that caller
	Class    int64         // of the leases it takes over; see Rules.Pass
	Place    L             // what the release before has taken for this contender; see ReleasedTo
	C        chan struct{} // receives when the waiter is granted the lock or becomes the contender, or a contending reader must ask again

	// guarded by the mutex of Via's shard
	role       role
	side       Side   // of a read-write lock
	separate   bool   // contends for itself, beside the side's contender
	oneShot    bool   // waits only for the contender's next answer
	answer     answer // of Redis to this contender, the last one
	refused    bool   // the last answer of Redis, see Blocked
	err        error
	hold       *Hold[L]
	next, prev *Waiter[L]
}

type role uint8

const (
	idle role = iota
	queued
	contending
	granted
)

// answer is what Redis has answered a contender.
type answer uint8

const (
	noAnswer answer = iota
	refusal
	failure
)

// pool recycles waiters.
type pool[L comparable] struct{ p sync.Pool }

// Waiter returns a waiter for one call of Lock.
func (p *pool[L]) Waiter(via *Handle[L], o *Owner, passable bool) *Waiter[L] {
	w, _ := p.p.Get().(*Waiter[L])
	if w == nil {
		w = &Waiter[L]{C: make(chan struct{}, 1)}
	}
	w.Via, w.Owner, w.Passable = via, o, passable
	return w
}

// Free takes back a waiter that is neither queued nor contending.
func (p *pool[L]) Free(w *Waiter[L]) {
	select {
	case <-w.C:
	default:
	}
	var none L
	w.Via, w.Owner, w.Place, w.hold, w.role = nil, nil, none, nil, idle
	w.refused, w.err = false, nil
	w.Inside, w.separate, w.oneShot, w.answer = false, false, false, noAnswer
	p.p.Put(w)
}

// signal signals a contender.
func (w *Waiter[L]) signal() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// eligible reports whether w may have the lock now.
func (w *Waiter[L]) eligible() bool { return w.Via.admitsLocked(w.Owner) }

// takesOver reports whether w, if there is one, takes over leases of that class.
func (w *Waiter[L]) takesOver(class int64) bool { return w != nil && w.Passable && w.Class == class }

// grant gives h to w, who is in no queue.
func (w *Waiter[L]) grant(h *Hold[L]) {
	w.role, w.hold = granted, h
	w.Via.noteLocked(h)
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
			h.count++
			w.grant(h)
			w.C <- struct{}{}
		}
		w = next
	}
}
