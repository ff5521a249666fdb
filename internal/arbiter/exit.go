package arbiter

import "cmp"

// Outcome is the result of an unlock.
type Outcome uint8

const (
	NotHeld Outcome = iota // this owner holds nothing here
	WasLost                // the hold had been lost
	Kept                   // the owner had locked more than once, and still holds it
	Passed                 // the next goroutine of this process has the lease now
	Release                // the caller must release it in Redis; of an exclusive one Released must follow
	Expired                // its lease had run out unnoticed: the hold is lost as of now
	Left                   // the hold, or one reader's part of it, has ended; other readers go on with its lease
)

// An Exit is what an unlock amounts to.
type Exit[L comparable] struct {
	Outcome Outcome
	Hold    *Hold[L]   // that it was for; nil if the outcome is NotHeld
	Lease   L          // that the hold rests on
	Lost    []*Hold[L] // if the outcome is Expired
	Next    int64      // of Release: the class of the waiter of this process that wants the lock next, 0 if there is none that takes over leases
}

// Exit is one unlock through via by o. If o is nil it is for what the handle itself has lost, else for what was last
// taken through via.
func (t *Table[L]) Exit(via *Handle[L], o *Owner, cause error) (x Exit[L]) {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entryLocked(via.name)
	defer s.dropLocked(via.name, e)
	var h *Hold[L]
	if o != nil {
		h = e.liveLocked(o, via.side)
	}
	if h == nil {
		h = via.lostOf(cmp.Or(o, &via.own))
	}
	if h == nil && o == nil {
		h = via.lastLocked()
	}
	return t.exitLocked(s, e, via.name, h, cause)
}

// ExitInner counts one unlock of a write hold that o has locked more than once, if there is one.
func (t *Table[L]) ExitInner(via *Handle[L], o *Owner) bool {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entries[via.name]
	if e == nil || !e.heldBy(o) || e.hold.count < 2 {
		return false
	}
	e.hold.count--
	return true
}

// Return gives back one lock of h, which was granted to a call that has been cancelled.
func (t *Table[L]) Return(via *Handle[L], h *Hold[L], cause error) Exit[L] {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entryLocked(via.name)
	defer s.dropLocked(via.name, e)
	return t.exitLocked(s, e, via.name, h, cause)
}

// exitLocked counts one unlock for h. If its lease has run out, the loss has that cause.
func (t *Table[L]) exitLocked(s *shard[L], e *entry[L], name string, h *Hold[L], cause error) (x Exit[L]) {
	if h == nil || h.count == 0 {
		return x
	}
	x.Hold, x.Lease = h, h.lease
	now := t.Now()
	switch {
	case h.State() == Lost:
		x.Outcome = WasLost
		h.unlockLostLocked()
	case h.count > 1 && !h.Owner.ofHandle:
		h.count--
		x.Outcome = Kept
	case !t.Certain(h.lease, now):
		x.Outcome, x.Lost = Expired, e.loseLocked(&s.Mutex, name, h.lease, cause)
		h.unlockLostLocked()
	case h.count > 1: // of the readers of a handle
		h.count--
		x.Outcome = Left
	case h.side == Read:
		x.Outcome = e.exitReaderLocked(h)
	default:
		x.Outcome, x.Next = t.exitWriterLocked(e, h, now)
	}
	t.promoteLocked(e) // calls that waited for the unlock of a lost hold may go on
	return x
}

// unlockLostLocked counts one unlock for a hold that was lost.
func (h *Hold[L]) unlockLostLocked() {
	h.count--
	if h.count == 0 {
		h.Owner.removeLost(h)
	}
}

// exitReaderLocked ends a read hold, whose last unlock has come.
func (e *entry[L]) exitReaderLocked(h *Hold[L]) Outcome {
	h.count--
	h.End(Ended, nil)
	e.dropReaderLocked(h)
	if h.lease == e.read {
		return Left
	}
	return Release
}

// exitWriterLocked ends the exclusive hold. It passes the lease to the next waiter of this
// process, unless readers wait, who go first, or the owner reads on or is about to: Redis may be
// granting it the read side under this very lease.
func (t *Table[L]) exitWriterLocked(e *entry[L], h *Hold[L], now int64) (out Outcome, next int64) {
	h.count--
	h.End(Ended, nil)
	w := e.queue.first()
	if w != nil && w.Passable && e.unread() {
		if token, ok := t.Pass(h.lease, w.Class, now); ok {
			e.queue.remove(w)
			e.grantLocked(w, h.lease, token, now).Passed = true
			w.C <- struct{}{}
			return Passed, 0
		}
		next = w.Class
	}
	e.releasing = true
	return Release, next
}

// Released reports the end of the release of an exclusive lease that Exit left to the caller. The
// next waiter becomes the contender. place, unless it is zero, is what the release has taken in
// Redis for it, if it takes over leases of that class: it finds place in its Waiter. Released
// reports whether there is such a contender.
func (t *Table[L]) Released(name string, lease, place L, class int64) (taken bool) {
	s := t.shard(name)
	return find(s, name, func(e *entry[L]) (taken bool) {
		if e.hold == nil || e.hold.lease != lease || !e.releasing {
			return false // lost meanwhile, or a read lease
		}
		e.hold, e.releasing = nil, false
		t.promoteLocked(e)
		if w := e.contender; w.takesOver(class) {
			w.Place, taken = place, true
		}
		s.dropLocked(name, e)
		return taken
	})
}
