package arbiter

// Lookup returns the live hold of name, nil if there is none.
func (t *Table[L]) Lookup(name string) *Hold[L] {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil && !e.releasing {
		return e.hold
	}
	return nil
}

// HoldOf returns the live hold of o on the handle's name, nil if it has none.
func (t *Table[L]) HoldOf(via *Handle[L], o *Owner) *Hold[L] {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[via.name]; e != nil && e.heldBy(o) {
		return e.hold
	}
	return nil
}

// Newest returns the hold of o on the handle's name that awaits its unlock: the live one, else
// the newest that was lost; nil if there is none.
func (t *Table[L]) Newest(via *Handle[L], o *Owner) *Hold[L] {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.entries[via.name]; {
	case e == nil:
		return nil
	case e.heldBy(o):
		return e.hold
	default:
		return e.lostOf(o, Write)
	}
}

// Holds returns all live holds. It is for tests.
func (t *Table[L]) Holds() []*Hold[L] {
	var hs []*Hold[L]
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			if e.hold != nil && !e.releasing {
				hs = append(hs, e.hold)
			}
		}
		s.mu.Unlock()
	}
	return hs
}

// Waiting returns the number of calls queued for name, without the contender. It is for
// tests.
func (t *Table[L]) Waiting(name string) (n int) {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		for w := e.queue.head; w != nil; w = w.next {
			n++
		}
	}
	return n
}

// Len returns the number of names the table knows. It is for tests.
func (t *Table[L]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
