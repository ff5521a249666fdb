package arbiter

// Open returns how many mentions of holds a handle keeps.
func (v *Handle[L]) Open() int {
	v.guard.Lock()
	defer v.guard.Unlock()
	return len(v.open)
}

// Awaited returns how many unlocks a hold taken through v awaits.
func (v *Handle[L]) Awaited(h *Hold[L]) int {
	v.guard.Lock()
	defer v.guard.Unlock()
	return h.count
}

// Side returns the held side.
func (h *Hold[L]) Side() Side { return h.side }

// Holds returns all live exclusive holds.
func (t *Table[L]) Holds() (hs []*Hold[L]) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		for _, e := range s.entries {
			if e.held() {
				hs = append(hs, e.hold)
			}
		}
		s.Unlock()
	}
	return hs
}

// Read returns the read hold of o, or that of the anonymous readers through via, live or lost;
// nil if none awaits an unlock.
func (t *Table[L]) Read(via *Handle[L], o *Owner) *Hold[L] {
	if h := t.HoldOf(via, o, Read); h != nil {
		return h
	}
	via.guard.Lock()
	defer via.guard.Unlock()
	if o == nil {
		return via.anonymousLocked()
	}
	for _, d := range o.due {
		if h, ok := d.of.(*Hold[L]); ok && via.isOf(d, Read) {
			return h
		}
	}
	return nil
}

// Due returns how many unlocks of lost holds o has still to make, and how many debts.
func (o *Owner) Due() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.due)
}
