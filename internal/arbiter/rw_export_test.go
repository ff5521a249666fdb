package arbiter

// Open returns how many mentions of holds a handle keeps.
func (v *Handle[L]) Open() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.open)
}

// Awaited returns how many unlocks a hold taken through v awaits.
func (v *Handle[L]) Awaited(h *Hold[L]) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return h.count
}
