package arbiter

import "slices"

// A Book keeps the holds taken through one handle of a lock made of other locks, such as a
// group, and attributes unlocks to them by the rules of Table. It does not decide who may have
// the lock: several holds may be live at a time. It is safe for concurrent use. Its zero value
// is ready once Now and Ends are set; see Rules.
type Book[L comparable] struct {
	Now  func() int64
	Ends func(L) int64

	guard   guard // protects the following, and the counts of the holds
	via     Handle[L]
	changed chan struct{} // made by the first Admits that returns false; closed by the end of a hold
}

// lock locks the book, and counts the holds that were lost meanwhile: nobody tells it.
func (b *Book[L]) lock() {
	b.guard.Lock()
	b.via.guard = &b.guard
	for _, h := range b.via.open {
		if h.count > 0 && h.State() == Lost && !h.noted {
			h.noteLossLocked(&b.guard, "")
		}
	}
}

// Admits reports whether a call of o may go on. An owner may not while a hold that it lost awaits
// its unlock, nor an anonymous call while an anonymous one does: for that it may wait until the
// channel is closed, and try again.
func (b *Book[L]) Admits(o *Owner) (ok bool, changed <-chan struct{}) {
	b.lock()
	defer b.guard.Unlock()
	if b.via.admitsLocked(o) {
		return true, nil
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return false, b.changed
}

// Add records a new hold.
func (b *Book[L]) Add(h *Hold[L]) {
	b.lock()
	defer b.guard.Unlock()
	h.count = 1
	b.via.noteLocked(h)
	if h.Owner == nil {
		b.via.anonymousLocked() // drops unlocked holds at the end
		b.via.pushAnonymousLocked(h, b.Ends)
	}
}

// Again locks the live hold of o once more and reports true, if it has one.
func (b *Book[L]) Again(o *Owner) bool {
	b.lock()
	defer b.guard.Unlock()
	h := b.liveLocked(o)
	if h == nil {
		return false
	}
	h.count++
	b.via.noteLocked(h)
	return true
}

// Newest returns the hold of o that awaits its unlock: the live one, else the one that was lost;
// nil if there is none.
func (b *Book[L]) Newest(o *Owner) *Hold[L] {
	b.lock()
	defer b.guard.Unlock()
	if h := b.liveLocked(o); h != nil {
		return h
	}
	return b.via.lostOf(o, Write)
}

// Latest returns the newest hold, nil if there was none.
func (b *Book[L]) Latest() *Hold[L] {
	b.lock()
	defer b.guard.Unlock()
	return b.via.latest
}

// Exit is one unlock by o; see Table.Exit and, for holds without an owner, anonymous.go. It
// returns the hold that the unlock is for, nil if there is none, and whether it was the last
// unlock: then the caller must release what the hold rests on, and end it with State Ended
// unless it is parted.
func (b *Book[L]) Exit(o *Owner) (h *Hold[L], over, parted bool) {
	b.lock()
	defer b.guard.Unlock()
	if o == nil {
		h = b.via.ownerlessLocked()
	} else if h = b.liveLocked(o); h == nil {
		_, h = b.via.owedLocked(o, Write)
	}
	if h == nil || !h.unlockLocked() {
		return h, false, false
	}
	parted = h.Owner == nil && h.State() == Live && b.via.partLocked(h, b.Now(), b.Ends)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return h, true, parted
}

// liveLocked returns the newest hold of o that is not known to be lost.
func (b *Book[L]) liveLocked(o *Owner) *Hold[L] {
	for _, h := range slices.Backward(b.via.open) {
		if o != nil && h.count > 0 && h.Owner == o && !h.noted {
			return h
		}
	}
	return nil
}
