package arbiter

import "cmp"

// Verdict is the answer to a request for the lock.
type Verdict uint8

const (
	Entered     Verdict = iota // granted: the owner held it already and has locked it once more
	Joined                     // granted: a reader shares the read lease of this process
	Ask                        // ask Redis, then call Grant or Quit
	Queued                     // wait on C, then call Answer; or call Quit
	Busy                       // refused, only to a call that does not wait
	Upgrade                    // refused: the owner only reads
	UnlockFirst                // refused: its owner must unlock first what it has lost
	Resumed                    // granted, with the lease that this process has kept
	Stale                      // Queued, for the release of the kept lease, w.Kept
)

// Enter requests w's side of the lock. A call that does not wait gets Busy instead of
// Queued, unless it is the first to wait for the release of what was kept: nobody has that lock.
func (t *Table[L]) Enter(w *Waiter[L], wait bool) Verdict {
	e, now := w.Lock.shard.lockFor(w)
	defer e.unlock()
	side, may, writes := w.Lock.side, w.eligible(), w.reenters(e.hold)
	apart := e.Open || side == Read && (!wait || !w.Passable || writes)
	own := e.live(w.Owner, side)
	switch {
	case may && w.reenters(own):
		w.grant(own)
		return Entered
	case side == Read && e.mayJoin(w, now):
		e.share(w, e.read, now)
		return Joined
	case !may:
		return UnlockFirst
	case side == Write && e.kept != nil:
		return e.resume(w, wait, now)
	case side == Write && e.reads[w.Owner] != nil:
		return Upgrade
	case !wait && (e.hold != nil && !writes || side == Write && len(e.reads) > 0):
		return Busy
	case apart || e.free(side): // what is queued now is not eligible, or would be the contender
		e.ask(w, apart)
		return Ask
	case !wait && !e.drains():
		return Busy
	}
	if e.hold != nil {
		e.hold.wanted()
	}
	e.enqueue(w, wait)
	return Queued
}

// EnterBeside has w, which wants the exclusive side, ask Redis for itself, whoever else does: for a
// lock that others have handed to it. It reports false if w's owner must unlock first what it has
// lost. Holds of its owner past their deadline are lost before: the call must not use up what it
// cannot have.
func (t *Table[L]) EnterBeside(w *Waiter[L]) bool {
	e, _ := w.Lock.shard.lockFor(w)
	defer e.unlock()
	if !w.eligible() {
		return false
	}
	e.ask(w, true)
	return true
}

// lockFor is lock for what w wants, and returns the time. If w's owner has a hold past its
// deadline, on either side, that is lost first: after a pause of the process nobody else may have
// noticed yet.
func (s *shard[L]) lockFor(w *Waiter[L]) (e *entry[L], now int64) {
	for {
		e, now = s.lock(w.Lock.name), s.Now()
		h := e.live(w.Owner, Read)
		if h == nil || s.Certain(h.lease, now) {
			h = e.live(w.Owner, Write)
		}
		if h == nil || s.Certain(h.lease, now) {
			return e, now
		}
		lease := h.lease
		e.unlock()
		s.Expire(w.Lock.name, lease)
	}
}

// Reenter returns the hold of owner o after it has entered once more, for an Unlock of the lock to
// end if due; nil if it has none on this side whose lease is certain.
func (t *Table[L]) Reenter(l *Lock[L], o *Owner, due bool) *Hold[L] {
	e := l.shard.lock(l.name)
	defer e.unlock()
	h := e.live(o, l.side)
	if h == nil || !t.Certain(h.lease, t.Now()) || l.MustUnlockFirst(o) {
		return nil
	}
	h.enter(due)
	return h
}

// Grant records that Redis granted the exclusive side, or of a lock of many one of its places, to
// the contender w. It returns the hold and true.
//
// It may return false: the caller must release the lease. Either w got a hold through another call
// of its owner meanwhile, which is returned. Or the hold is nil and w still contends: its owner has
// lost a hold, which must be unlocked first; or another call has a newer token, so the lease has
// ended already. In an open table a hold with an older token was lost unnoticed: Gone ends it
// first.
func (t *Table[L]) Grant(w *Waiter[L], lease L, token int64) (*Hold[L], bool) {
	now := t.Now()
	e := w.Lock.shard.lock(w.Lock.name)
	for w.hold == nil && e.hold != nil && e.hold.Token <= token {
		old := e.hold.lease
		e.unlock()
		t.Gone(w.Lock.name, old)
		e = w.Lock.shard.lock(w.Lock.name)
	}
	defer e.unlock()
	if w.hold != nil {
		return w.hold, false
	}
	if newer := cmp.Or(e.hold, e.releasing); newer != nil && newer.Token > token || !w.eligible() {
		return nil, false
	}
	e.stop(w)
	return e.grant(w, lease, token, now), true
}

// grant makes w the holder, together with all waiters of the same owner.
func (e *entry[L]) grant(w *Waiter[L], lease L, token, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, lease: lease, Token: token, Since: now, side: w.Lock.side, keep: w.Keep}
	if h.Owner == nil {
		h.Owner = &h.alone
	}
	if h.side == Read {
		e.keep(h)
	} else {
		e.hold, e.releasing, e.kept = h, nil, nil
	}
	w.grant(h)
	e.admit(h)
	if len(e.queues[Write])+len(e.queues[Read]) > 0 {
		h.wanted()
	}
	return h
}

// Answer returns, after C has fired, the hold that w was granted; nil if it must ask Redis now.
func (t *Table[L]) Answer(w *Waiter[L]) *Hold[L] {
	w.Lock.guard.Lock()
	defer w.Lock.guard.Unlock()
	return w.hold
}

// Quit ends the wait or contention of w; the next waiter becomes the contender. If w was
// granted a hold meanwhile, Quit returns it, and the caller must give it back with Return.
func (t *Table[L]) Quit(w *Waiter[L]) *Hold[L] {
	e := w.Lock.shard.lock(w.Lock.name)
	defer e.unlock()
	e.stop(w)
	return w.hold
}
