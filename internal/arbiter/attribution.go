package arbiter

// Which hold an unlock is for.
//
// An unlock with an owner is for that owner's hold. One without an owner could be for any hold
// taken through the same handle. If one of those was lost, its own unlock is still to come, so
// the unlock is counted for the lost hold, an anonymous one first: a lock is held too long rather
// than released under somebody else.
//
// If the lost hold is an owner's that may be wrong, and then one unlock too few is left for the
// others. The owner's own unlock, when it comes, is that one: so the owner has a debt, and the
// unlock that pays it counts as one without an owner through the same handle. Every unlock is
// thus counted once, for a hold that was taken through the handle, and a live hold ends only when
// each lost one has had its unlock. A debt lapses when no hold of the handle awaits an unlock.

// A debt is an unlock without an owner that was counted for an owner's lost hold.
type debt[L comparable] struct {
	via   *Handle[L] // of the unlock
	quiet uint32     // of via then
}

func (d debt[L]) lapsed() bool { return d.quiet != d.via.quiet }

// ownerlessLocked returns the hold that an unlock without an owner through v is for: a lost one,
// else the anonymous one whose lease ends first, else the newest. If it is for a lost hold of an
// owner, and others are left, it leaves the debt.
func (v *Handle[L]) ownerlessLocked() *Hold[L] {
	if h := v.firstLostLocked(true); h != nil {
		return h
	}
	if h := v.firstLostLocked(false); h != nil {
		if v.othersLocked(h) {
			h.Owner.removeDue(func(d due) bool { // so that they do not pile up
				old, ok := d.of.(debt[L])
				return ok && d.guard == v.guard && old.lapsed()
			})
			h.Owner.addDue(due{v.guard, v.name, h.side, debt[L]{v, v.quiet}})
		}
		return h
	}
	if h := v.firstAnonymousLocked(); h != nil {
		return h
	}
	return v.lastLocked()
}

// othersLocked reports whether a hold other than h, taken through v, awaits an unlock.
func (v *Handle[L]) othersLocked(h *Hold[L]) bool {
	for _, other := range v.open {
		if other != h && other.count > 0 {
			return true
		}
	}
	return false
}

// owedLocked returns the hold that an unlock by o through v is for, if o has no live hold: its
// lost hold, or one that its debt is paid with. through is v, or the handle of the debt.
func (v *Handle[L]) owedLocked(o *Owner, side Side) (through *Handle[L], h *Hold[L]) {
	if h = v.lostOf(o, side); h != nil {
		return v, h
	}
	for {
		d, ok := o.removeDue(func(d due) bool { return v.isOf(d, side) }).(debt[L])
		switch {
		case !ok:
			return v, nil
		case !d.lapsed():
			if h = d.via.ownerlessLocked(); h != nil {
				return d.via, h
			}
		}
	}
}

// lostOf returns the hold on a side of v's lock that o lost and has not unlocked, nil if there is
// none.
func (v *Handle[L]) lostOf(o *Owner, side Side) (h *Hold[L]) {
	o.anyDue(func(d due) bool {
		if v.isOf(d, side) {
			h, _ = d.of.(*Hold[L])
		}
		return h != nil
	})
	return h
}

// isOf reports whether d is of a side of v's lock.
func (v *Handle[L]) isOf(d due, side Side) bool {
	return d.guard == v.guard && d.name == v.name && d.side == side
}

// loseLocked ends a hold before its unlock.
func (h *Hold[L]) loseLocked(g *guard, name string) {
	h.End(Lost)
	h.noteLossLocked(g, name)
}

// noteLossLocked records that h was lost. Its unlock is due.
func (h *Hold[L]) noteLossLocked(g *guard, name string) {
	h.noted = true
	g.losses++
	h.Owner.addDue(due{g, name, h.side, h})
}

// unlockLocked counts one unlock for a hold that was lost, and reports whether it was its last.
func (h *Hold[L]) unlockLocked() bool {
	h.count--
	if h.count == 0 {
		h.Owner.removeDue(func(d due) bool { return d.of == any(h) })
	}
	return h.count == 0
}

// MustUnlockFirst reports whether a call of o through v may not have the lock before a lost hold
// is unlocked; see admitsLocked.
func (v *Handle[L]) MustUnlockFirst(o *Owner) bool {
	v.guard.Lock()
	defer v.guard.Unlock()
	return !v.admitsLocked(o)
}

// admitsLocked reports whether o may have the lock now. An owner may not while a hold that it
// lost, on either side, awaits its unlock: the section that the loss has broken still runs. Nor
// may an anonymous call through a handle whose anonymous hold was lost: the unlock to come could
// not be told from its own.
func (v *Handle[L]) admitsLocked(o *Owner) bool {
	if o == nil {
		return v.firstLostLocked(true) == nil
	}
	return !v.lostBy(o)
}

// lostBy reports whether a hold of v's lock that o lost awaits its unlock.
func (v *Handle[L]) lostBy(o *Owner) bool {
	return o.anyDue(func(d due) bool {
		_, lost := d.of.(*Hold[L])
		return lost && v.isOf(d, d.side)
	})
}
