package arbiter

import "slices"

// HoldOf returns the live hold of o on a side of the handle's name, nil if it has none.
func (rw *RW[L]) HoldOf(via *Handle[L], o *Owner, side Side) *Hold[L] {
	s := &rw.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	switch {
	case e == nil:
		return nil
	case side == Read:
		return e.readHoldOf(o)
	case e.writtenBy(o):
		return e.writer
	}
	return nil
}

// Newest returns the hold of o on a side of the handle's name that awaits its unlock; see
// Table.Newest.
func (rw *RW[L]) Newest(via *Handle[L], o *Owner, side Side) *Hold[L] {
	s := &rw.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	switch {
	case e == nil:
		return nil
	case side == Write && e.writtenBy(o):
		return e.writer
	case side == Read && e.readHoldOf(o) != nil:
		return e.readHoldOf(o)
	}
	return e.lostOf(o, side)
}

// Leases returns the leases that live holds of name rest on.
func (rw *RW[L]) Leases(name string) []L {
	s := &rw.shards[rw.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return nil
	}
	var ls []L
	if e.writing() {
		ls = append(ls, e.writer.Lease)
	}
	if e.sharing > 0 {
		ls = append(ls, e.read)
	}
	for h := e.readers; h != nil; h = h.next {
		if h.Lease != e.read && !slices.Contains(ls, h.Lease) {
			ls = append(ls, h.Lease)
		}
	}
	return ls
}

// Read returns the read hold of o, or that of the anonymous readers through via; nil if none
// awaits an unlock.
func (rw *RW[L]) Read(via *Handle[L], o *Owner) *Hold[L] {
	s := &rw.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	switch {
	case e == nil:
		return nil
	case o == nil:
		return via.anonymousLocked()
	case e.readHoldOf(o) != nil:
		return e.readHoldOf(o)
	}
	return e.lostOf(o, Read)
}

// Waiting returns the number of calls queued for a side of name, without contenders. It is for
// tests.
func (rw *RW[L]) Waiting(name string, side Side) (n int) {
	s := &rw.shards[rw.index(name)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		q := &e.writers
		if side == Read {
			q = &e.queued
		}
		for w := q.head; w != nil; w = w.next {
			n++
		}
	}
	return n
}

// Len returns the number of names the arbiter knows. It is for tests.
func (rw *RW[L]) Len() (n int) {
	for i := range rw.shards {
		s := &rw.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
