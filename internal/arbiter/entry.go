package arbiter

import "sync"

// shard is a part of the names of a table.
type shard[L comparable] struct {
	mu      sync.Mutex           // protects the following, and all that entries lead to
	entries map[string]*entry[L] // by name
	spare   []*entry[L]          // to be used again
}

// entry is the state of one name. It exists while there is a hold, a contender, a waiter, or
// a lost hold that awaits its unlock. At most one of hold and contender is set.
type entry[L comparable] struct {
	hold      *Hold[L]   // the hold of this process
	releasing bool       // hold has ended, its release in Redis is under way
	contender *Waiter[L] // the one call that asks Redis
	queue     queue[L]   // waiters; in an open table the contenders too
	record[L]
}

// heldBy reports whether o has the hold.
func (e *entry[L]) heldBy(o *Owner) bool {
	return o != nil && e.hold != nil && !e.releasing && e.hold.Owner == o
}

// entryLocked returns the entry of a name, a new one if there is none.
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
	if e.hold != nil || e.contender != nil || e.queue.head != nil || len(e.lost) > 0 {
		return
	}
	delete(s.entries, name)
	if len(s.spare) < 8 {
		s.spare = append(s.spare, e)
	}
}

// promoteLocked makes the first eligible waiter the contender, if the name needs one.
func (t *Table[L]) promoteLocked(s *shard[L], name string, e *entry[L]) {
	if t.Open {
		for w := e.queue.head; w != nil; w = w.next {
			if w.role == queued && e.eligible(w) {
				w.role = contending
				w.C <- struct{}{}
			}
		}
	} else if e.hold == nil && e.contender == nil {
		if w := e.firstLocked(); w != nil {
			e.queue.remove(w)
			e.contender, w.role = w, contending
			w.C <- struct{}{}
		}
	}
	s.dropLocked(name, e)
}

// firstLocked returns the first eligible waiter.
func (e *entry[L]) firstLocked() *Waiter[L] {
	w := e.queue.head
	for w != nil && !e.eligible(w) {
		w = w.next
	}
	return w
}
