package arbiter

import (
	"slices"
	"sync"
)

// Anonymous holds that are live at the same time: those of the readers of one handle, each on
// a lease of its own, or those of a group.
//
// Nothing tells which of the goroutines unlocks. So an unlock ends the lease that would end
// first, whoever took it. After k of n readers have unlocked, the n-k leases that last longest
// remain: they can be matched, one to one, with the remaining readers so that each has a lease
// that lasts at least as long as the one it took. Nobody's protection is cut short, and the
// last lease goes with the last unlock.
//
// The reader that took the released lease may be one of the remaining. Its hold must not
// report an end, so it is only parted from its lease: it ends with the live hold that lasts
// longest, or when its own lease would have ended.

// anonymous are the anonymous holds of a handle.
type anonymous[L comparable] struct {
	holds  []*Hold[L] // by the end of their leases, ended ones among them
	parted *parted[L] // those whose lease went with another's unlock; nil before the first
}

// parted holds the holds of a handle that were parted from their leases.
type parted[L comparable] struct {
	end func(State) // ends the holds; called when with ends

	mu    sync.Mutex // protects the following
	with  *Hold[L]   // the hold with which they end
	holds []*Hold[L]
}

func newParted[L comparable]() *parted[L] {
	p := new(parted[L])
	p.end = func(s State) {
		p.mu.Lock()
		holds := p.holds
		p.with, p.holds = nil, nil
		p.mu.Unlock()
		for _, h := range holds {
			h.End(s)
		}
	}
	return p
}

// add makes h end together with another hold.
func (p *parted[L]) add(h, with *Hold[L], now int64, ends func(L) int64) {
	p.mu.Lock()
	before := p.with
	p.with, p.holds = with, append(p.holds, h)
	over := 0
	for ends(p.holds[over].Lease) <= now && p.holds[over] != h {
		over++
	}
	lost := slices.Clone(p.holds[:over])
	p.holds = slices.Delete(p.holds, 0, over)
	p.mu.Unlock()
	for _, h := range lost {
		h.End(Lost)
	}
	if before == with {
		return
	}
	if before != nil {
		before.Forget(&p.end)
	}
	with.OnEnd(&p.end)
}

// pushAnonymousLocked adds h to the anonymous holds of v, in the order in which leases end.
func (v *Handle[L]) pushAnonymousLocked(h *Hold[L], ends func(L) int64) {
	if v.anon == nil {
		v.anon = new(anonymous[L])
	}
	i := len(v.anon.holds)
	for i > 0 && ends(v.anon.holds[i-1].Lease) > ends(h.Lease) {
		i--
	}
	v.anon.holds = slices.Insert(v.anon.holds, i, h)
}

// anonymousLocked returns, of the anonymous holds taken through v that await an unlock, the one
// that lasts longest. It may be lost.
func (v *Handle[L]) anonymousLocked() *Hold[L] {
	if v.anon == nil {
		return nil
	}
	return lastOf(&v.anon.holds)
}

// firstAnonymousLocked returns the live anonymous hold taken through v whose lease ends first.
func (v *Handle[L]) firstAnonymousLocked() *Hold[L] {
	a := v.anon
	if a == nil {
		return nil
	}
	for len(a.holds) > 0 && a.holds[0].count == 0 {
		a.holds[0] = nil
		a.holds = a.holds[1:]
	}
	for _, h := range a.holds {
		if h.count > 0 && h.State() == Live {
			return h
		}
	}
	return nil
}

// longestLocked returns the live anonymous hold taken through v, other than but, that lasts
// longest; nil if there is none.
func (v *Handle[L]) longestLocked(but *Hold[L]) *Hold[L] {
	if v.anon == nil {
		return nil
	}
	for _, h := range slices.Backward(v.anon.holds) {
		if h != but && h.count > 0 && h.State() == Live {
			return h
		}
	}
	return nil
}

// partLocked parts h, an anonymous hold whose last unlock has come, from its lease, if another
// anonymous hold taken through v is live. Otherwise it returns false, and the caller ends h.
func (v *Handle[L]) partLocked(h *Hold[L], now int64, ends func(L) int64) bool {
	with := v.longestLocked(h)
	if with == nil {
		return false
	}
	if v.latest == h {
		v.latest = with
	}
	if v.anon.parted == nil {
		v.anon.parted = newParted[L]()
	}
	v.anon.parted.add(h, with, now, ends)
	return true
}
