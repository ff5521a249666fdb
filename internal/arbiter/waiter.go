package arbiter

import "sync"

// A Waiter is one call of Lock. It comes from Table.Waiter and goes back with
// Table.Free.
type Waiter[L comparable] struct {
	Via      *Handle[L]
	Owner    *Owner        // nil: anonymous
	Passable bool          // may take over a hold from another goroutine, or share its lease as a reader
	C        chan struct{} // receives once when the waiter is granted the lock, or made the asker

	// guarded by the shard of Via
	role       role
	side       Side // of a read-write lock
	own        bool // asks for itself, beside the side's asker
	once       bool // is queued only for the answer that the asker gets next
	told       told // what Redis told it last
	hold       *Hold[L]
	next, prev *Waiter[L]
}

type role uint8

const (
	idle role = iota
	queued
	asking
	granted
)

// told is what an asker has heard of Redis.
type told uint8

const (
	nothing told = iota
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

// Free takes back a waiter that is neither queued nor asking.
func (p *pool[L]) Free(w *Waiter[L]) {
	select {
	case <-w.C:
	default:
	}
	w.Via, w.Owner, w.hold, w.role = nil, nil, nil, idle
	w.own, w.once, w.told = false, false, nothing
	p.p.Put(w)
}

// give makes h the answer to w, who is in no queue.
func (w *Waiter[L]) give(h *Hold[L]) {
	w.role, w.hold = granted, h
	w.Via.noteLocked(h)
}

// queue is a list of waiters, oldest first. It is guarded by the shard.
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

// letIn gives h to those of q that wait under its owner.
func (q *queue[L]) letIn(h *Hold[L]) {
	if !h.Owner.hasQueued() {
		return
	}
	for w := q.head; w != nil; {
		next := w.next
		if w.Owner == h.Owner {
			q.remove(w)
			h.count++
			w.give(h)
			w.C <- struct{}{}
		}
		w = next
	}
}
