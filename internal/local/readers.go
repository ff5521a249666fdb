package local

import "slices"

// The readers' side.

// rlock begins the call c of a reader.
func (e *entry) rlock(c *Call, now int64) Step {
	switch {
	case e.read != nil && !e.read.Valid(now):
		return Step{Do: Lose, Lease: e.read}
	case e.mayJoin(c, now):
		return Step{Do: Enter, Hold: e.join(c, now)}
	case c.Try && (e.state == held || e.delegates[readSide] != nil && e.delegates[readSide].refused):
		return Step{Do: Refuse}
	case e.delegates[readSide] == nil:
		return e.delegate(c)
	}
	return e.wait(c, now)
}

// mayJoin reports whether c may share the lease without asking Redis.
func (e *entry) mayJoin(c *Call, now int64) bool {
	return e.read != nil && (c.Inside || now < e.joinUntil && e.state == free && len(e.queues[writeSide]) == 0)
}

// join gives c a hold on the lease, or the one that its crowd has there.
func (e *entry) join(c *Call, now int64) *Hold {
	if c.Crowd != nil {
		h := c.Crowd.hold
		if _, ok := e.readers[h]; ok && h.Enter(c.Due) {
			e.letIn(c, h)
			return h
		}
	}
	h := e.begin(c, e.read, 0, now)
	if e.readers == nil {
		e.readers = make(map[*Hold]struct{})
	}
	e.readers[h] = struct{}{}
	if c.Crowd != nil {
		c.Crowd.hold = h
	}
	return h
}

// grantedRead lets the delegate c in, and all readers that wait.
func (e *entry) grantedRead(c *Call, l *Lease, fresh bool, joinUntil, now int64) (step Step, spare *Lease) {
	switch {
	case e.read != nil && !e.read.Valid(now):
		return Step{Do: Lose, Lease: e.read}, nil
	case e.read == nil && fresh:
		e.read = l
	case e.read != l && fresh:
		spare = l
	case e.read != l:
		return e.ask(c), nil // the lease that it was to share has ended meanwhile
	}
	e.joinUntil = joinUntil
	e.delegates[readSide] = nil
	h := e.join(c, now)
	for _, w := range slices.Clone(e.queues[readSide]) {
		e.leave(w)
		e.join(w, now)
		w.signal()
	}
	return Step{Do: Enter, Hold: h}, spare
}

// runlock ends h.
func (e *entry) runlock(h *Hold, now int64) Step {
	if _, ok := e.readers[h]; !ok || !h.End(Ended, nil) {
		return Step{}
	}
	e.noteTaken(now)
	if delete(e.readers, h); len(e.readers) > 0 {
		return Step{}
	}
	l := e.read
	e.read = nil
	return Step{Do: Release, Lease: l}
}
