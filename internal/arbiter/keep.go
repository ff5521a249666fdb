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
	e.releasing, w.Kept = h, h.lease
	if wait {
		e.queues[Write].push(w)
	}
	return Stale
}

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
	e.releasing, e.kept = e.kept, nil
	return true
}
