package arbiter

// Awaited returns how many unlocks a hold taken through v awaits.
func (v *Handle[L]) Awaited(h *Hold[L]) int {
	v.guard.Lock()
	defer v.guard.Unlock()
	return h.count
}

// Open returns how many mentions of holds a handle keeps.
func (v *Handle[L]) Open() int {
	v.guard.Lock()
	defer v.guard.Unlock()
	return len(v.took)
}

// Side returns the held side.
func (h *Hold[L]) Side() Side { return h.side }

// Lost returns how many lost holds an owner has still to unlock.
func (o *Owner) Lost() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lost)
}

// Side returns the side that v is for.
func (v *Handle[L]) Side() Side { return v.side }
