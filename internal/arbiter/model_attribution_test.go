package arbiter_test

import "slices"

// mdebt is an unlock without an owner that was counted for an owner's lost hold.
type mdebt struct {
	to    *owner
	via   *mhandle
	quiet int
}

// others: holds other than h, taken through v, that await an unlock.
func (v *mhandle) others(h *mhold) bool {
	return slices.ContainsFunc(v.open, func(b *mhold) bool { return b != h && b.count > 0 })
}

// find: the hold that an unlock is for. Without an owner that is one that was lost, an
// anonymous one first and then the oldest, else the newest. An owner owes its own unlock of
// a lost hold for which one without an owner was counted, if that may have been another's.
func (m *machine) find(v *mhandle, o *owner) *mhold {
	if o != nil {
		if m.entered(o) {
			return m.held
		}
		return m.owed(o)
	}
	if h := v.lostHold(true); h != nil {
		return h
	}
	if h := v.lostHold(false); h != nil {
		if v.others(h) {
			m.debts = append(m.debts, mdebt{h.owner, v, v.quiet})
		}
		return h
	}
	for _, h := range slices.Backward(v.open) {
		if h.count > 0 {
			return h
		}
	}
	return nil
}

// owed: the lost hold of o that awaits its unlock, or the one that a debt is paid with.
func (m *machine) owed(o *owner) *mhold {
	if h := m.lostOf(o); h != nil {
		return h
	}
	for i, d := range slices.Backward(m.debts) {
		if d.to != o {
			continue
		}
		m.debts = slices.Delete(m.debts, i, i+1)
		if d.quiet == d.via.quiet {
			if h := m.find(d.via, nil); h != nil {
				return h
			}
		}
		return m.owed(o)
	}
	return nil
}

func (m *machine) lostOf(o *owner) *mhold {
	for _, h := range slices.Backward(m.lost) {
		if o != nil && h.owner == o {
			return h
		}
	}
	return nil
}
