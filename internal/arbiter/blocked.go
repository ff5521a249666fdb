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
	w.Via.guard.Lock()
	defer w.Via.guard.Unlock()
	w.refused, w.err = err == nil, err
}

// Blocked returns what w waits for, a call that is queued.
func (t *Table[L]) Blocked(w *Waiter[L]) (b Blocked[L]) {
	s := t.of(w.Via)
	s.Lock()
	defer s.Unlock()
	e := s.entries[w.Via.name]
	switch {
	case e == nil:
	case w.side == Read:
		b.behind(e.readContender, e.hold)
	case e.hold != nil:
		b.behind(e.contender, e.hold)
	default:
		b.behind(e.contender, e.firstReader())
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
