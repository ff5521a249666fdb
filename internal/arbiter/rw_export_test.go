package arbiter

// Open returns how many mentions of holds a handle keeps.
func (v *Handle[L]) Open() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.open)
}
