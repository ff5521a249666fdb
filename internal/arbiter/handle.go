package arbiter

import (
	"context"
	"slices"
)

// A Handle is one side of a lock as a program has it. It remembers what was taken through it, and is
// the owner of what was taken without one. Table.Init makes it usable.
type Handle[L comparable] struct {
	lockSide
	shard *shard[L] // of the name
	own   Owner

	// Many: each call through this handle without an owner has one of its own, and so may hold beside the others.
	Many bool

	// took are the holds taken through this handle that await an unlock, perhaps others, and the newest: each
	// once, in the order in which they were taken last. guard protects it.
	took []*Hold[L]
}

// Init makes v a handle for one side of name.
func (t *Table[L]) Init(v *Handle[L], name string, side Side) {
	v.shard = t.shard(name)
	v.lockSide = lockSide{&v.shard.Mutex, name, side}
	v.own.ofHandle = true
}

// Name returns the name of the lock.
func (v *Handle[L]) Name() string { return v.name }

// OwnerOf returns for whom a Lock under ctx is: the owner in ctx, else that of the handle.
func (v *Handle[L]) OwnerOf(ctx context.Context) *Owner {
	if o := OwnerOf(ctx); o != nil {
		return o
	}
	if v.Many {
		return &Owner{ofHandle: true, of: &v.own}
	}
	return &v.own
}

// Latest returns the newest hold taken through this handle, nil if there was none.
func (v *Handle[L]) Latest() *Hold[L] {
	v.guard.Lock()
	defer v.guard.Unlock()
	if len(v.took) == 0 {
		return nil
	}
	return v.took[len(v.took)-1]
}

// Held returns the newest hold taken through this handle that is live, nil if there is none.
func (v *Handle[L]) Held() *Hold[L] {
	v.guard.Lock()
	defer v.guard.Unlock()
	for _, h := range slices.Backward(v.took) {
		if h.State() == Live {
			return h
		}
	}
	return nil
}

// tookLocked records that h was taken through v. It drops holds that are over only when there is no room for
// another one, and then makes room, so that many holders do not look at each other's.
func (v *Handle[L]) tookLocked(h *Hold[L]) {
	full := len(v.took) == cap(v.took)
	if full || h.count > 1 { // otherwise it is taken for the first time
		v.took = slices.DeleteFunc(v.took, func(old *Hold[L]) bool { return old == h || full && old.count == 0 })
	}
	if full {
		v.took = slices.Grow(v.took, len(v.took)+1)
	}
	v.took = append(v.took, h)
}

// lastLocked returns the newest hold taken through v that awaits an unlock, nil if there is none. It drops those that
// are over behind it, but for the newest, so that the next call does not look at them again.
func (v *Handle[L]) lastLocked() *Hold[L] {
	for i, h := range slices.Backward(v.took) {
		if h.count > 0 {
			v.took = slices.Delete(v.took, i+1, max(i+1, len(v.took)-1))
			return h
		}
	}
	return nil
}

// owedLocked returns the newest hold that a call through a handle of Many has lost and not unlocked, nil if there is
// none.
func (v *Handle[L]) owedLocked() *Hold[L] {
	if v.own.losses.Load() == 0 {
		return nil
	}
	for _, h := range slices.Backward(v.took) {
		if h.count > 0 && h.State() == Lost && h.Owner.of == &v.own {
			return h
		}
	}
	return nil
}

// lostOf returns the hold on v's side of the lock that o lost and has not unlocked, nil if there is
// none.
func (v *Handle[L]) lostOf(o *Owner) *Hold[L] {
	h, _ := o.lostOn(v.lockSide).(*Hold[L])
	return h
}

// LossOf returns why o has lost a hold, on either side, which it must unlock first; nil if there is none.
func (v *Handle[L]) LossOf(o *Owner) error {
	for _, side := range []Side{Write, Read} {
		if h, _ := o.lostOn(lockSide{v.guard, v.name, side}).(*Hold[L]); h != nil {
			return h.Cause()
		}
	}
	v.guard.Lock()
	defer v.guard.Unlock()
	if h := v.owedLocked(); o.of == &v.own && h != nil {
		return h.Cause()
	}
	return nil
}

// MustUnlockFirst reports whether a call of o may not have the lock now, since a hold that it lost, on either
// side, awaits its unlock: the section that the loss has broken still runs.
func (v *Handle[L]) MustUnlockFirst(o *Owner) bool {
	return o.lostOn(lockSide{v.guard, v.name, Write}) != nil || o.lostOn(lockSide{v.guard, v.name, Read}) != nil ||
		o.of == &v.own && v.own.losses.Load() > 0
}
