package arbiter_test

import "slices"

// before: the newest hold but one taken through v before h that awaits an unlock, and if
// so asked, more than it owes; rather an anonymous one.
func (v *mhandle) before(h, but *mhold, more bool) (found *mhold) {
	for _, b := range v.open[:max(0, slices.Index(v.open, h))] {
		if b != but && b.count > 0 && !(more && b.owesAll()) && (found == nil || b.owner == nil || found.owner != nil) {
			found = b
		}
	}
	return found
}

// charge: last owes d, or one before it if last owes all that it awaits.
func (v *mhandle) charge(last, counted *mhold, d mdebt) {
	if b := v.before(last, counted, true); b != nil && last.owesAll() {
		last = b
	}
	last.owing = append(last.owing, d)
}

// handOn: h owes no more than left, and those before it the rest.
func (h *mhold) handOn(left int) {
	for len(h.owing) > left {
		d := h.owing[left]
		h.owing = slices.Delete(h.owing, left, left+1)
		next := d.via.before(h, nil, true)
		if next == nil {
			next = d.via.before(h, nil, false)
		}
		if next != nil {
			next.owing = append(next.owing, d)
		}
	}
}

// find: the hold that an unlock ends. Without an owner it may be the one of the oldest
// lost hold taken through v, an anonymous one first. If that has an owner, the newest hold
// taken through v owes that owner an unlock from then on; and so it does all that the lost
// one owes beyond what it still awaits. An anonymous one, or one that ends as the newest,
// hands that on to those before it.
func (m *machine) find(v *mhandle, o *owner) *mhold {
	if o == nil {
		var last *mhold
		for _, h := range v.open {
			if h.count > 0 {
				last = h
			}
		}
		h := v.lostHold(true)
		if h == nil {
			h = v.lostHold(false)
		}
		switch {
		case h == nil && last != nil && last.count == 1:
			last.handOn(0)
			return last
		case h != nil && h.owner == nil:
			h.handOn(h.count - 1)
			return h
		case h == nil || h == last:
			return last
		}
		v.charge(last, h, mdebt{h.owner, v})
		for len(h.owing) >= h.count {
			v.charge(last, h, h.owing[len(h.owing)-1])
			h.owing = h.owing[:len(h.owing)-1]
		}
		return h
	}
	if m.entered(o) {
		return m.held
	}
	return m.owed(o)
}

// owed: the lost hold of o that awaits its unlock, or one that owes it one.
func (m *machine) owed(o *owner) *mhold {
	if h := m.lostOf(o); h != nil {
		return h
	}
	for _, h := range append([]*mhold{m.held}, m.lost...) {
		if h == nil || h.count == 0 {
			continue
		}
		if i := slices.IndexFunc(h.owing, func(d mdebt) bool { return d.to == o }); i >= 0 {
			h.owing = slices.Delete(h.owing, i, i+1)
			return h
		}
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
