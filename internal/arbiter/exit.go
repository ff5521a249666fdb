package arbiter

// Outcome is the result of an unlock.
type Outcome uint8

const (
	NotHeld Outcome = iota // nothing is held for this call to end
	WasLost                // the hold had been lost
	Kept                   // the owner had locked more than once, and still holds it
	Passed                 // the next goroutine of this process has the lease now
	Release                // the caller must release it in Redis; of an exclusive one Released must follow
	Expired                // its lease had run out unnoticed: the hold is lost as of now
	Left                   // the hold, or one reader's part of it, has ended; other readers go on with its lease
	Idle                   // the hold has ended; this process keeps its lease
)

// An Exit is what an unlock amounts to.
type Exit[L comparable] struct {
	Outcome Outcome
	Hold    *Hold[L]   // that it was for; nil if the outcome is NotHeld
	Lease   L          // that the hold rests on
	Lost    []*Hold[L] // if the outcome is Expired
	Last    bool       // no other unlock of the hold is to come
	Next    int64      // of Release: the class of the waiter of this process that wants the lock next, 0 if there is none that takes over leases
}

// Exit ends one call that h, a hold of l, was granted to; if due, one that an Unlock of the lock is
// to end. If the lease has run out unnoticed, the loss has that cause.
func (t *Table[L]) Exit(l *Lock[L], h *Hold[L], due bool, cause error) Exit[L] {
	e := l.shard.lock(l.name)
	defer e.unlock()
	return e.exit(h, due, true, cause)
}

// HandOff is Exit of an exclusive hold that goes to another process: no goroutine of this one is
// passed it.
func (t *Table[L]) HandOff(l *Lock[L], h *Hold[L], cause error) Exit[L] {
	e := l.shard.lock(l.name)
	defer e.unlock()
	return e.exit(h, false, false, cause)
}

// ExitOwner is Exit of o's hold, live or lost, by an Unlock of the lock.
func (t *Table[L]) ExitOwner(l *Lock[L], o *Owner, cause error) Exit[L] {
	e := l.shard.lock(l.name)
	defer e.unlock()
	h := e.live(o, l.side)
	if h == nil {
		h = l.lostOf(o)
	}
	return e.exit(h, true, true, cause)
}

// ExitInner is ExitOwner that is not the last one of the hold, and reports whether it was.
// ExitOwner would do the same, at twice the cost.
func (t *Table[L]) ExitInner(l *Lock[L], o *Owner) bool {
	e := l.shard.lock(l.name)
	defer e.unlock()
	h := e.live(o, l.side)
	if h == nil || h.count < 2 || !h.Due() {
		return false
	}
	h.count--
	h.locks.Add(-1)
	return true
}

// exit ends one call of h, whose lease may be passed on to another goroutine.
func (e *entry[L]) exit(h *Hold[L], due, pass bool, cause error) (x Exit[L]) {
	if h == nil || h.count == 0 || due && !h.Due() {
		return x
	}
	x.Hold, x.Lease = h, h.lease
	h.count--
	if due {
		h.locks.Add(-1)
	}
	switch {
	case h.State() == Lost:
		x.Outcome = WasLost
	case h.count > 0 && h.Owner.enters:
		x.Outcome = Kept
	case !e.Certain(h.lease, e.Now()):
		x.Outcome, x.Lost = Expired, e.lose(h.lease, cause)
	case h.count > 0: // of a crowd
		x.Outcome = Left
	case h.side == Read:
		x.Outcome = Release
		h.End(Ended, nil)
		if e.dropReader(h); h.lease == e.read {
			x.Outcome = Left
		}
	default:
		x.Outcome, x.Next = e.exitWriter(h, pass)
	}
	x.Last = h.count == 0
	if x.Last && h.State() == Lost {
		h.Owner.setLost(e.side(h.side), nil)
	}
	return x
}

// exitWriter ends the exclusive hold. It passes the lease to the next waiter of this process,
// unless readers wait, who go first, or the owner reads on or is about to: Redis may be granting it
// the read side under this very lease. While a contender asks Redis, who came before the waiters,
// the hold was adopted.
func (e *entry[L]) exitWriter(h *Hold[L], pass bool) (out Outcome, next int64) {
	h.End(Ended, nil)
	w := e.queues[Write].first()
	if pass && w != nil && w.Passable && e.contenders[Write] == nil && e.unread() {
		now := e.Now()
		if token, ok := e.Pass(h.lease, w.Class, now); ok {
			w.leave()
			next := e.grant(w, h.lease, token, now)
			next.Passed = true
			if h.recalled {
				next.recall()
			}
			w.signal()
			return Passed, 0
		}
		next = w.Class
	}
	if pass && h.keep > 0 && !h.recalled && e.idle(Write) && e.unread() && e.Keep(h.lease, h.keep, e.Now()) {
		e.hold, e.kept = nil, h
		return Idle, 0
	}
	e.noteTaken()
	e.hold, e.releasing = nil, h
	return Release, next
}

// Released reports the end of the release of an exclusive lease that Exit left to the caller. The
// next waiter becomes the contender. place, unless it is zero, is what the release has taken in
// Redis for it, if it takes over leases of that class: it finds place in its Waiter. Released
// reports whether there is such a contender.
func (t *Table[L]) Released(name string, lease, place L, class int64) bool {
	e := t.shard(name).lock(name)
	defer e.unlock()
	if e.releasing == nil || e.releasing.lease != lease {
		return false // lost meanwhile, or a read lease
	}
	e.releasing = nil
	if e.contenders[Write] != nil {
		return false // it asks already: the hold was adopted
	}
	e.promote()
	w := e.contenders[Write]
	if w == nil || !w.Passable || w.Class != class {
		return false
	}
	w.Place = place
	return true
}
