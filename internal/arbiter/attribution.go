package arbiter

import "slices"

// Which hold an unlock is for.
//
// An unlock with an owner ends that owner's newest hold. One without an owner could be for any
// hold taken through the same value. If one of those was lost, its own unlock is still to
// come, so the unlock is counted for the lost hold: a lock is held too long rather than
// released under somebody else. That may be wrong, and then the live hold would never end.
// So it is charged with a debt: when the owner of the lost hold unlocks as such afterwards,
// that unlock settles the debt and counts for the live hold.

// A record holds the lost holds of one name that still await an unlock. The mutex of the
// name's shard guards it, or that of a Book.
type record[L comparable] struct {
	lost []*Hold[L]
}

// ownerless returns the hold that an unlock without an owner through via is for. That is
// first, unless a hold taken through via was lost: then it is that one, preferably an
// anonymous one. Of the holds that the unlock could end, first has the lease that ends first,
// and last the one that lasts longest; or both are the newest hold.
func (r *record[L]) ownerless(via *Handle[L], first, last *Hold[L]) *Hold[L] {
	if len(r.lost) > 0 {
		h := via.firstLostLocked(true)
		if h == nil {
			h = via.firstLostLocked(false)
		}
		if h != nil {
			if h.Owner == nil { // its debts are those of other anonymous holds, not of a newer one with an owner
				h.passDebts(h.count - 1)
				return h
			}
			if last == h {
				return h
			}
			via.chargeLocked(last, h, debt[L]{h.Owner, via})
			for n := len(h.debts); n >= h.count; n = len(h.debts) { // more debts than unlocks will be left
				via.chargeLocked(last, h, h.debts[n-1])
				h.debts = h.debts[:n-1]
			}
			return h
		}
	}
	return firstLocked(via, first, last)
}

// firstLocked returns first, whose unlock has come. If that is its last, its debts go to last.
func firstLocked[L comparable](via *Handle[L], first, last *Hold[L]) *Hold[L] {
	switch {
	case first == nil || first.count > 1:
	case first == last:
		last.passDebts(last.count - 1)
	default:
		for _, d := range first.debts {
			via.chargeLocked(last, first, d)
		}
		first.debts = nil
	}
	return first
}

// A debt is an unlock without an owner that was counted for a lost hold of an owner, and may
// have been that of another hold taken through the same handle.
type debt[L comparable] struct {
	to  *Owner     // of the lost hold
	via *Handle[L] // of the unlock
}

// passDebts charges the debts of h to holds taken before it, all but the first left of them,
// as h will await no more unlocks: the others must have been theirs.
func (h *Hold[L]) passDebts(left int) {
	if len(h.debts) <= left {
		return
	}
	for _, d := range h.debts[left:] {
		next := d.via.beforeLocked(h, nil, true)
		if next == nil {
			next = d.via.beforeLocked(h, nil, false)
		}
		if next != nil {
			next.debts = append(next.debts, d)
		}
	}
	h.debts = slices.Delete(h.debts, left, len(h.debts))
}

// owesAll reports whether h has a debt for every unlock that it awaits.
func (h *Hold[L]) owesAll() bool { return len(h.debts) >= h.count }

// lostOf returns the newest lost hold of o on a side that awaits its unlock.
func (r *record[L]) lostOf(o *Owner, side Side) *Hold[L] {
	for _, h := range slices.Backward(r.lost) {
		if o != nil && h.Owner == o && h.side == side {
			return h
		}
	}
	return nil
}

// forget drops a lost hold whose last unlock has come.
func (r *record[L]) forget(h *Hold[L]) {
	r.lost = slices.DeleteFunc(r.lost, func(l *Hold[L]) bool { return l == h })
	if len(r.lost) == 0 {
		r.lost = nil
	}
}

// eligible reports whether w may have the lock now.
func (r *record[L]) eligible(w *Waiter[L]) bool { return r.admits(w.Via, w.Owner) }

// admits reports whether o may have the lock now. An owner may not while a hold that it lost
// awaits its unlock: the section that the loss has broken still runs. Nor may an anonymous call
// through a handle whose anonymous hold was lost: the unlock to come could not be told from its
// own.
func (r *record[L]) admits(via *Handle[L], o *Owner) bool {
	if o != nil {
		return !r.lostBy(o)
	}
	return len(r.lost) == 0 || via.firstLostLocked(true) == nil
}

// lostBy reports whether a hold that o lost awaits its unlock.
func (r *record[L]) lostBy(o *Owner) bool {
	return o != nil && slices.ContainsFunc(r.lost, func(h *Hold[L]) bool { return h.Owner == o })
}

// mustUnlockFirst reports whether w is refused until a lost hold is unlocked. Only an anonymous
// call that waits may wait for that: the unlock is another goroutine's.
func (r *record[L]) mustUnlockFirst(w *Waiter[L], wait bool) bool {
	return (w.Owner != nil || !wait) && !r.eligible(w)
}

// settle settles a debt of h to o, if it has one, and returns the handle of that unlock,
// otherwise nil.
func (h *Hold[L]) settle(o *Owner) (via *Handle[L]) {
	if h == nil || h.count == 0 {
		return nil
	}
	i := slices.IndexFunc(h.debts, func(d debt[L]) bool { return d.to == o })
	if i >= 0 {
		via = h.debts[i].via
		h.debts = slices.Delete(h.debts, i, i+1)
	}
	return via
}

// settledLocked returns the hold that is to end in place of h, for an unlock through v. If h is
// anonymous, any goroutine with an anonymous hold taken through v may have made that unlock:
// one that was lost ends, otherwise the one whose lease ends first.
func (r *record[L]) settledLocked(v *Handle[L], h *Hold[L]) *Hold[L] {
	if h.Owner != nil || v.anonymousLocked() == nil {
		return h
	}
	first, last := v.candidatesLocked()
	if v.firstLostLocked(true) != nil {
		return r.ownerless(v, first, last)
	}
	return firstLocked(v, first, last)
}

// chargeLocked charges debt d, of an unlock through v, to last. If last has a debt for each of
// its unlocks already, an earlier hold is charged: each debt needs an unlock to settle it.
// counted is the hold that the unlock was counted for, which is never charged.
func (v *Handle[L]) chargeLocked(last, counted *Hold[L], d debt[L]) {
	if last.owesAll() {
		if h := v.beforeLocked(last, counted, true); h != nil {
			last = h
		}
	}
	last.debts = append(last.debts, d)
}

// beforeLocked returns the newest hold other than but, taken through v before h, that awaits
// an unlock, preferably an anonymous one. With more set it must await more than it has debts.
// If h is anonymous, the other anonymous ones count as taken before it: their unlocks cannot
// be told from its own.
func (v *Handle[L]) beforeLocked(h, but *Hold[L], more bool) (found *Hold[L]) {
	seen := false
	for _, next := range slices.Backward(v.open) {
		switch {
		case next == h:
			seen = true
		case !seen && (h.Owner != nil || next.Owner != nil) || next == but || next.count == 0 || more && next.owesAll():
		case next.Owner == nil:
			return next
		case found == nil:
			found = next
		}
	}
	return found
}
