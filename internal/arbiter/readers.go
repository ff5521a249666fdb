package arbiter

import "slices"

// The read side of a name. A process has one read lease that any number of its readers share. A new
// reader joins that lease without asking Redis while the last answer of Redis, that no writer
// waits, is fresh enough, and no writer waits here; after that, one reader asks again on behalf of
// all. A reader asks for itself, apart, if its lease is not to be shared, if its owner has the
// exclusive hold, or if it does not wait.
//
// An owner has at most one read hold; so has a crowd, which counts its readers. If the lease is not
// shared, each of them brings one of its own, and the one that lasts longest stays: none is cut
// short.
//
// The read side of an open table has no sharing: each call asks for a hold and a lease of its own,
// and Redis says how many there may be. That is how a semaphore is held, which has no other side.

// unread reports whether there is neither a read hold nor a call for one.
func (e *entry[L]) unread() bool {
	return len(e.reads) == 0 && e.idle(Read) && len(e.apart) == 0
}

// mayJoin reports whether w may lock the read side without asking Redis.
func (e *entry[L]) mayJoin(w *Waiter[L], now int64) bool {
	switch {
	case !w.eligible():
		return false
	case w.reenters(e.reads[w.Owner]):
		return true
	case !w.Passable || e.sharing == 0 || !e.Certain(e.read, now):
		return false
	case e.busy():
		return w.reenters(e.hold)
	}
	return w.Inside || now < e.joinUntil && e.idle(Write)
}

// share gives w a hold on a read lease, or one lock more of the hold that its owner has.
func (e *entry[L]) share(w *Waiter[L], lease L, now int64) *Hold[L] {
	h := e.reads[w.Owner]
	if h == nil {
		h = &Hold[L]{Owner: w.Owner, lease: lease, Since: now, side: Read}
		if h.Owner == nil {
			h.Owner = &h.alone
		}
		e.keep(h)
		if lease == e.read {
			e.sharing++
		}
	}
	w.grant(h)
	e.admit(h)
	return h
}

// keep records a new hold of the read side.
func (e *entry[L]) keep(h *Hold[L]) {
	if e.reads == nil {
		e.reads = make(map[*Owner]*Hold[L])
	}
	e.reads[h.Owner] = h
	if h.lease != e.read {
		e.index(h)
	}
}

// index records the lease of a read hold that has one of its own.
func (e *entry[L]) index(h *Hold[L]) {
	if e.alone == nil {
		e.alone = make(map[string]*Hold[L])
	}
	e.alone[e.ID(h.lease)] = h
}

// Standing is what a reader must tell Redis when it asks.
type Standing[L comparable] struct {
	Confirm bool // this process reads: only ask whether more readers may join Read
	Read    L
	Writes  bool // the owner has the exclusive hold, on Write
	Write   L
	Refused bool // the owner has lost a hold, which it must unlock first
}

// Standing returns the standing of the contending reader w; or a hold, if it need not ask any
// more.
func (t *Table[L]) Standing(w *Waiter[L]) (*Hold[L], Standing[L]) {
	e, now := w.Lock.shard.lockFor(w)
	defer e.unlock()
	var st Standing[L]
	if e.mayJoin(w, now) {
		e.stop(w)
		return e.share(w, e.read, now), st
	}
	st.Refused = !w.eligible()
	if e.sharing > 0 && w.Passable && e.hold == nil {
		st.Confirm, st.Read = true, e.read
	}
	if h := e.live(w.Owner, Write); h != nil {
		st.Writes, st.Write = true, h.lease
	}
	return nil, st
}

// GrantRead records that Redis granted the contender w a read lease, or, if it is not fresh,
// confirmed the one that this process shares. All queued readers enter with w, and others may
// join until joinUntil.
//
// It returns the hold of w, or nil if w still contends, and what the caller must release: a fresh
// lease that is not used, or the one that it replaces. A lease is not used if w's owner has lost a
// hold, or if it has a hold or this process a shared lease by now.
func (t *Table[L]) GrantRead(w *Waiter[L], lease L, fresh bool, joinUntil int64) (h *Hold[L], spare L) {
	e, now := w.Lock.shard.lockFor(w)
	defer e.unlock()
	if fresh {
		spare = lease
	}
	var none L
	own := e.reads[w.Owner]
	switch {
	case !w.eligible():
		return nil, spare
	case w.reenters(own):
	case !w.Passable:
		if own == nil {
			spare = none
		} else if t.Outlasts(lease, own.lease) {
			spare = own.lease
			delete(e.alone, e.ID(spare))
			own.more.Lock()
			own.lease = lease
			own.more.Unlock()
			e.index(own)
		}
	case e.sharing > 0 && !t.Certain(e.read, now), !fresh && e.read != lease:
		return nil, spare
	default:
		if e.sharing == 0 {
			e.read, spare = lease, none
		}
		lease, e.joinUntil = e.read, joinUntil
	}
	e.stop(w)
	h = e.share(w, lease, now)
	if lease == e.read && e.hold == nil {
		e.admitReaders(now)
	}
	return h, spare
}

// admitReaders lets all queued readers share the read lease.
func (e *entry[L]) admitReaders(now int64) {
	for _, w := range slices.Clone(e.queues[Read]) {
		// One of the same owner may have brought it a hold already.
		if w.hold == nil && w.Passable && w.eligible() {
			w.leave()
			e.share(w, e.read, now)
			w.signal()
		}
	}
}

// dropReader forgets a read hold that has ended.
func (e *entry[L]) dropReader(h *Hold[L]) {
	e.noteTaken()
	delete(e.reads, h.Owner)
	if h.lease != e.read {
		delete(e.alone, e.ID(h.lease))
		return
	}
	e.sharing--
	if e.sharing == 0 {
		var none L
		e.read = none
	}
}
