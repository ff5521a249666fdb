package arbiter

// A lease that is kept belongs to nobody. The next Lock takes it over as if it were passed on. Otherwise it is released;
// a call that wants one of the same length queues in the same step.

// resume has w take over the kept lease, or has it released: then it is w.Kept.
func (e *entry[L]) resume(w *Waiter[L], wait bool, now int64) Verdict {
	h, class := e.kept, w.Class
	if !w.Passable || !w.eligible() {
		class = 0
	}
	e.kept = nil
	if token, ok := e.Resume(h.lease, class, now); ok {
		e.grant(w, h.lease, token, now).Passed = true
		return Resumed
	}
	e.drain(h)
	w.Kept = h.lease
	e.enqueue(w, wait)
	return Stale
}

// drain: the lease of h, which was kept, is to be released.
func (e *entry[L]) drain(h *Hold[L]) {
	h.unused = true
	e.releasing, e.kept = h, nil
}

// drains reports whether this process is releasing what it kept, and nobody waits for that.
func (e *entry[L]) drains() bool { return e.releasing != nil && e.releasing.unused && e.idle(Write) }

// Drop ends the keeping of a lease, and reports whether it was kept: then the caller must release it, and Released must
// follow.
func (t *Table[L]) Drop(name string, lease L) bool {
	e := t.shard(name).lock(name)
	defer e.unlock()
	return e.drop(lease)
}

func (e *entry[L]) drop(lease L) bool {
	if e.kept == nil || e.kept.lease != lease {
		return false
	}
	e.drain(e.kept)
	return true
}
