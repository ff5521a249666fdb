package local

// The exclusive side.

// lock begins the call c. One that does not wait for the lock waits for the release of a lease, which
// nobody has, and for the answer to another call of the process.
func (e *entry) lock(c *Call, heard, now int64) Step {
	switch e.state {
	case free:
		if c.Try && e.read != nil {
			return Step{Do: Refuse}
		}
		return e.delegate(c)
	case kept:
		if token, ok := e.lease.takeOver(c.Length, Never, heard, now); ok {
			e.lease.Start = now // the hand-off window begins again: nobody else has wanted the lease
			e.hold = e.begin(c, e.lease, token, now)
			e.state, e.hold.Passed = held, true
			return Step{Do: Enter, Hold: e.hold, Kept: true}
		}
		e.wait(c, now)
		return e.release(now)
	case asking:
		if c.Try && e.delegates[writeSide].refused {
			return Step{Do: Refuse}
		}
	case held:
		if c.Try {
			return Step{Do: Refuse}
		}
	}
	return e.wait(c, now)
}

// begin lets c in, on a lease that is its own now.
func (e *entry) begin(c *Call, l *Lease, token, now int64) *Hold {
	h := &Hold{Lease: l, Owner: c.Owner, Token: token, Since: now, Keep: c.Keep, Reads: c.Reads}
	h.shared = c.Owner != nil || c.Crowd != nil
	h.calls.Store(one(c.Due))
	e.letIn(c, h)
	return h
}

// granted gives l to the delegate c.
func (e *entry) granted(c *Call, l *Lease, now int64) *Hold {
	e.delegates[writeSide] = nil
	e.state, e.lease, e.wanted = held, l, false
	l.Start = now
	e.hold = e.begin(c, l, l.Token, now)
	e.turnTries(writeSide)
	if len(e.queues[writeSide])+len(e.queues[readSide]) > 0 {
		e.hold.SetWanted()
	}
	return e.hold
}

// unlock ends h. Readers that wait go first: one of them asks Redis already.
func (e *entry) unlock(h *Hold, pass, keep bool, window, heard, now int64) Step {
	if e.state != held || e.hold != h || !h.End(Ended, nil) {
		return Step{}
	}
	l := e.lease
	alone := e.read == nil && e.delegates[readSide] == nil && len(e.queues[readSide]) == 0
	if q := e.queues[writeSide]; pass && alone && len(q) > 0 {
		if token, ok := l.takeOver(q[0].Length, l.Start+window, 0, now); ok {
			e.pass(q[0], token, now)
			return Step{}
		}
	} else if keep && alone && len(q) == 0 && h.Keep > 0 && !e.wanted && l.mayBeKept(heard) {
		e.state = kept
		return Step{Do: Keep, Lease: l, Hold: h}
	}
	e.noteTaken(now)
	return e.release(now)
}

// pass gives the lease to the next call.
func (e *entry) pass(c *Call, token, now int64) {
	e.leave(c)
	e.hold = e.begin(c, e.lease, token, now)
	e.hold.Passed = true
	if e.wanted || len(e.queues[writeSide]) > 0 {
		e.hold.SetWanted()
	}
	c.signal()
}

// release ends the hold, or the keeping, of the lease.
func (e *entry) release(now int64) Step {
	e.state, e.hold, e.released = releasing, nil, now
	return Step{Do: Release, Lease: e.lease}
}

// clear ends what the process has.
func (e *entry) clear(now int64) {
	e.noteTaken(now)
	e.state, e.lease, e.hold, e.wanted, e.released = free, nil, nil, false, 0
}

// releasedLease ends the release of l.
func (e *entry) releasedLease(l *Lease, now int64) {
	if e.state == releasing && e.lease == l {
		e.clear(now)
		e.promote()
	}
}

// recalled tells the holder of l that another process wants it.
func (e *entry) recalled(l *Lease, now int64) Step {
	if e.lease == l && e.state == held {
		e.wanted = true
		e.hold.SetWanted()
	}
	return e.dropped(l, now)
}

// dropped ends the keeping of l.
func (e *entry) dropped(l *Lease, now int64) Step {
	if e.lease != l || e.state != kept {
		return Step{}
	}
	return e.release(now)
}
