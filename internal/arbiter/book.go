package arbiter

import "sync"

// A Book keeps the holds taken through one lock value that is made of other locks, such as a
// group, and attributes unlocks to them by the rules of Table. It does not decide who may have
// the lock: several holds may be live at a time. It is safe for concurrent use. Its zero value
// is ready once Now and Ends are set; see Rules.
type Book[L comparable] struct {
	Now  func() int64
	Ends func(L) int64

	mu      sync.Mutex // protects the following, and the counts of the holds
	via     Handle[L]
	changed chan struct{} // made by the first Admits that returns false; closed by the end of a hold
	record[L]
}

// Admits reports whether a call of o may go on. An owner may not while a hold that it lost awaits
// its unlock, nor an anonymous call while an anonymous one does: for that it may wait until the
// channel is closed, and try again.
func (b *Book[L]) Admits(o *Owner) (ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookLocked()
	if b.admits(&b.via, o) {
		return true, nil
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return false, b.changed
}

// Add records a new hold.
func (b *Book[L]) Add(h *Hold[L]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.count = 1
	b.via.noteLocked(h)
	if h.Owner == nil {
		b.via.anonymousLocked() // drops unlocked holds at the end
		b.via.pushAnonymousLocked(h, b.Ends)
	}
}

// Again locks the live hold of o once more and reports true, if it has one.
func (b *Book[L]) Again(o *Owner) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.liveLocked(o)
	if h == nil {
		return false
	}
	h.count++
	b.via.noteLocked(h)
	return true
}

// HoldOf returns the live hold of o, nil if it has none.
func (b *Book[L]) HoldOf(o *Owner) *Hold[L] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.liveLocked(o)
}

// Latest returns the newest hold, nil if there was none.
func (b *Book[L]) Latest() *Hold[L] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.via.latest
}

// Exit is one unlock by o; see Table.Exit and, for holds without an owner, anonymous.go. It
// returns the hold that the unlock is for, nil if there is none, and whether it was the last
// unlock: then the caller must release what the hold rests on, and end it with State Ended
// unless it is parted.
func (b *Book[L]) Exit(o *Owner) (h *Hold[L], over, parted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h = b.findLocked(o)
	if h == nil {
		return nil, false, false
	}
	h.count--
	if h.count > 0 {
		return h, false, false
	}
	parted = h.Owner == nil && h.State() == Live && b.via.partLocked(h, b.Now(), b.Ends)
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return h, true, parted
}

// findLocked returns the hold that an unlock by o is for, nil if there is none.
func (b *Book[L]) findLocked(o *Owner) *Hold[L] {
	b.lookLocked()
	if o == nil {
		first, last := b.via.candidatesLocked()
		return b.ownerless(&b.via, first, last)
	}
	if h := b.liveLocked(o); h != nil {
		return h
	}
	return b.owedLocked(o)
}

// lookLocked updates the list of lost holds.
func (b *Book[L]) lookLocked() {
	clear(b.lost)
	b.lost = b.lost[:0]
	for _, h := range b.via.open {
		if h.count > 0 && h.State() == Lost {
			b.lost = append(b.lost, h)
		}
	}
}

// liveLocked returns the newest live hold of o.
func (b *Book[L]) liveLocked(o *Owner) *Hold[L] {
	for i := len(b.via.open) - 1; i >= 0 && o != nil; i-- {
		if h := b.via.open[i]; h.count > 0 && h.Owner == o && h.State() == Live {
			return h
		}
	}
	return nil
}

// owedLocked returns the hold that an unlock of o, who has no live hold, is for: its lost hold,
// or one with a debt to o.
func (b *Book[L]) owedLocked(o *Owner) *Hold[L] {
	if h := b.lostOf(o, Write); h != nil {
		return h
	}
	for i := len(b.via.open) - 1; i >= 0; i-- {
		if h := b.via.open[i]; h.State() == Live && h.settle(o) != nil {
			return b.settledLocked(&b.via, h)
		}
	}
	for _, h := range b.lost {
		if h.settle(o) != nil {
			return b.settledLocked(&b.via, h)
		}
	}
	return nil
}
