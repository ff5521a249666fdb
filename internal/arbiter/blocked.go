package arbiter

// Blocked tells what a queued call waits for.
type Blocked[L comparable] struct {
	Held  bool // this process has the lock, on Lease, or is releasing it
	Lease L

	// What Redis answered last to the contender, who asks on behalf of the queue.
	Refused bool  // the lock is taken
	Err     error // it did not answer, or failed
}

// Report records the answer of Redis to the contender w: a refusal if err is nil.
func (*pool[L]) Report(w *Waiter[L], err error) {
	w.Via.mu.Lock()
	defer w.Via.mu.Unlock()
	w.refused, w.err = err == nil, err
}

// Blocked returns what w waits for, a call that is queued.
func (t *Table[L]) Blocked(w *Waiter[L]) (b Blocked[L]) {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[w.Via.name]; e != nil {
		b.behind(e.contender, e.hold)
	}
	return b
}

// Blocked returns what w waits for, a call that is queued.
func (rw *RW[L]) Blocked(w *Waiter[L]) (b Blocked[L]) {
	s := &rw.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	switch {
	case e == nil:
	case w.side == Read:
		b.behind(e.readContender, e.writer)
	case e.writer != nil:
		b.behind(e.writeContender, e.writer)
	default:
		b.behind(e.writeContender, e.readers)
	}
	return b
}

func (b *Blocked[L]) behind(contender *Waiter[L], holder *Hold[L]) {
	if holder != nil {
		b.Held, b.Lease = true, holder.Lease
	}
	if contender != nil {
		b.Refused, b.Err = contender.refused, contender.err
	}
}
