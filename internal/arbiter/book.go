package arbiter

import "sync"

// A Book keeps the holds taken through one value of a lock that is made of others, such
// as a group, and decides by the rules of Table which of them an unlock is for. It does
// not decide who may have the lock: several holds may be live at the same time. Its
// zero value is ready, and safe for concurrent use.
type Book[L comparable] struct {
	mu      sync.Mutex // protects the following, and the counts of the holds
	via     Handle[L]
	changed chan struct{} // made by the first Admits that says no; closed when a hold ends
	record[L]
}

// Admits reports whether a call of o may go on. An anonymous one may not while an
// anonymous hold was lost and awaits its unlock; then the channel is closed when it is
// to look again.
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

// Add records a hold that was taken.
func (b *Book[L]) Add(h *Hold[L]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.count = 1
	b.via.noteLocked(h)
}

// Again adds one to the live hold of o, if it has one, and reports whether it has.
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

// Latest returns the hold last taken, nil if there was none.
func (b *Book[L]) Latest() *Hold[L] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.via.latest
}

// Exit is one unlock by o; see Table.Exit. It returns the hold that it is for, nil if
// there is none, and whether it was the last one: then the caller has to end the hold.
func (b *Book[L]) Exit(o *Owner) (h *Hold[L], over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookLocked()
	if o == nil {
		h = b.ownerless(&b.via, b.via.lastLocked())
	} else if h = b.liveLocked(o); h == nil {
		h = b.owedLocked(o)
	}
	if h == nil {
		return nil, false
	}
	h.count--
	if h.count > 0 {
		return h, false
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return h, true
}

// lookLocked finds out which holds are lost.
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

// owedLocked returns what awaits an unlock of o that has no live hold: its lost hold, or
// one for which the unlock of that was taken.
func (b *Book[L]) owedLocked(o *Owner) *Hold[L] {
	if h := b.of(o, Write); h != nil {
		return h
	}
	for i := len(b.via.open) - 1; i >= 0; i-- {
		if h := b.via.open[i]; h.State() == Live && h.owes(o) {
			return h
		}
	}
	for _, h := range b.lost {
		if h.owes(o) {
			return h
		}
	}
	return nil
}
