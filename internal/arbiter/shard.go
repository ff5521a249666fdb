package arbiter

import "sync"

const shardCount = 64 // a power of two; a shard's mutex is held for well under a microsecond

// shard is a part of the names of a table.
type shard[L comparable] struct {
	guard                        // protects the following, and all that entries lead to
	entries map[string]*entry[L] // by name
	spare   []*entry[L]          // to be used again
}

// guard is the mutex of a shard, or of a Book.
type guard struct {
	sync.Mutex
	losses uint32 // how many holds were lost; see Handle.clean
}

// entry is the state of one name. It exists while there is a hold, a contender, or a waiter. At
// most one of hold and contender is set.
type entry[L comparable] struct {
	hold        *Hold[L]   // the exclusive hold of this process
	releasing   bool       // hold has ended, its release in Redis is under way
	contender   *Waiter[L] // the one call that asks Redis for an exclusive hold
	queue       queue[L]   // waiters for one; in an open table the contenders too
	*readers[L]            // the read side; nil until the first call of a reader
}

// heldBy reports whether o has the exclusive hold.
func (e *entry[L]) heldBy(o *Owner) bool { return o != nil && e.held() && e.hold.Owner == o }

// held reports whether this process has a live exclusive hold.
func (e *entry[L]) held() bool { return e.hold != nil && !e.releasing }

// liveLocked returns the live hold of o on a side, nil if it has none.
func (e *entry[L]) liveLocked(o *Owner, side Side) *Hold[L] {
	switch {
	case side == Read:
		return e.readHoldOf(o)
	case e.heldBy(o):
		return e.hold
	}
	return nil
}

// entryLocked returns the entry of a name, a new one if there is none. dropLocked must follow.
func (s *shard[L]) entryLocked(name string) *entry[L] {
	e := s.entries[name]
	if e == nil {
		if n := len(s.spare); n > 0 {
			e, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			e = new(entry[L])
		}
		s.entries[name] = e
	}
	return e
}

// dropLocked forgets the name if its entry is empty.
func (s *shard[L]) dropLocked(name string, e *entry[L]) {
	if e.hold != nil || e.contender != nil || e.queue.head != nil || !e.unread() {
		return
	}
	delete(s.entries, name)
	if len(s.spare) < 8 {
		s.spare = append(s.spare, e)
	}
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

// stopContendingLocked ends the wait or contention of w.
func (e *entry[L]) stopContendingLocked(w *Waiter[L]) {
	switch {
	case w == e.contender:
		e.contender = nil
	case w.side == Write:
		e.queue.remove(w)
	case w == e.readContender:
		e.readContender = nil
	case w.separate:
		e.apart.remove(w)
		w.separate = false
	case w.role == queued:
		e.queued.remove(w)
	}
	w.role = idle
}

// loseLocked ends every hold on lease before its unlock, and returns them.
func (e *entry[L]) loseLocked(g *guard, name string, lease L) (lost []*Hold[L]) {
	if h := e.hold; h != nil && h.Lease == lease {
		if !e.releasing {
			h.loseLocked(g, name)
			lost = append(lost, h)
		}
		e.hold, e.releasing = nil, false
	}
	if e.readers == nil {
		return lost
	}
	for h := e.holds; h != nil; {
		next := h.next
		if h.Lease == lease {
			e.dropReaderLocked(h)
			h.loseLocked(g, name)
			lost = append(lost, h)
		}
		h = next
	}
	return lost
}
