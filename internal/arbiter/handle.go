package arbiter

import "slices"

// A Handle remembers the holds taken through one handle of a lock. It belongs to one name of one
// table. Its zero value belongs to none.
//
// What a lost hold of an anonymous owner leaves is kept here alone, until its unlock. No table
// refers to a handle but for a call that waits or a hold that is live, so a handle that is
// garbage leaves nothing.
type Handle[L comparable] struct {
	name  string
	shard int32  // of the name; constant
	clean uint32 // the guard's losses when no hold in open was lost
	guard *guard // of that shard; protects the rest, and clean

	latest *Hold[L]      // last hold taken through this handle
	anon   *anonymous[L] // of a read side or a group; nil before the first
	open   []*Hold[L]    // oldest first; at least all holds that await an unlock
	prune  int32         // length of open at which to drop the other ones
	quiet  uint32        // how often a hold was taken while none awaited an unlock
}

// Name returns the name of the lock.
func (v *Handle[L]) Name() string { return v.name }

// Valid reports whether the handle came from a table.
func (v *Handle[L]) Valid() bool { return v != nil && v.guard != nil }

// Latest returns the newest hold taken through this handle, nil if there was none.
func (v *Handle[L]) Latest() *Hold[L] {
	if !v.Valid() {
		return nil
	}
	v.guard.Lock()
	defer v.guard.Unlock()
	return v.latest
}

// noteLocked records that h was taken through v.
func (v *Handle[L]) noteLocked(h *Hold[L]) {
	if v.latest == h {
		return
	}
	v.latest = h
	if v.lastLocked() == nil {
		v.quiet++
	}
	if len(v.open) >= int(v.prune) {
		v.pruneLocked()
		v.prune = int32(2*len(v.open) + 2)
	}
	v.open = append(v.open, h)
}

// pruneLocked drops unlocked holds from open, and all but the newest mention of the others.
func (v *Handle[L]) pruneLocked() {
	if len(v.open) == 0 {
		return
	}
	seen := make(map[*Hold[L]]bool, len(v.open))
	slices.Reverse(v.open)
	v.open = slices.DeleteFunc(v.open, func(h *Hold[L]) bool {
		drop := h.count == 0 || seen[h]
		seen[h] = true
		return drop
	})
	slices.Reverse(v.open)
}

// lastLocked returns the newest hold taken through v that awaits an unlock.
func (v *Handle[L]) lastLocked() *Hold[L] { return lastOf(&v.open) }

// lastOf returns the last hold of a list that awaits an unlock, and drops those after it.
func lastOf[L comparable](list *[]*Hold[L]) *Hold[L] {
	for n := len(*list); n > 0; n-- {
		if h := (*list)[n-1]; h.count > 0 {
			return h
		}
		(*list)[n-1] = nil
		*list = (*list)[:n-1]
	}
	return nil
}

// firstLostLocked returns the oldest lost hold taken through v that awaits an unlock, only an
// anonymous one if anonymous is set.
func (v *Handle[L]) firstLostLocked(anonymous bool) *Hold[L] {
	if v.clean == v.guard.losses {
		return nil
	}
	clean := true
	for _, h := range v.open {
		if h.count > 0 && h.State() == Lost {
			if h.Owner == nil || !anonymous {
				return h
			}
			clean = false
		}
	}
	if clean {
		v.clean = v.guard.losses
	}
	return nil
}
