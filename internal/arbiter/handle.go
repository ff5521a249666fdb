package arbiter

import (
	"context"
	"slices"
	"sync"
)

// A Handle is one side of a lock as a program has it. It remembers what was taken through it, and is
// the owner of what was taken without one. Table.Init makes it usable.
type Handle[L comparable] struct {
	name  string
	shard int32       // of the name
	guard *sync.Mutex // of that shard; protects the following
	side  Side
	own   Owner

	latest *Hold[L]   // the last hold taken through this handle
	open   []*Hold[L] // oldest first; at least all holds that await an unlock
	prune  int        // length of open at which to drop the other ones
}

// Init makes v a handle for one side of name.
func (t *Table[L]) Init(v *Handle[L], name string, side Side) {
	i := t.index(name)
	v.name, v.shard, v.guard, v.side, v.own.ofHandle = name, int32(i), &t.shards[i].Mutex, side, true
}

// Name returns the name of the lock.
func (v *Handle[L]) Name() string { return v.name }

// OwnerOf returns for whom a Lock under ctx is: the owner in ctx, else that of the handle.
func (v *Handle[L]) OwnerOf(ctx context.Context) *Owner {
	if o := OwnerOf(ctx); o != nil {
		return o
	}
	return &v.own
}

// Latest returns the newest hold taken through this handle, nil if there was none.
func (v *Handle[L]) Latest() *Hold[L] {
	v.guard.Lock()
	defer v.guard.Unlock()
	return v.latest
}

// tookLocked records that h was taken through v.
func (v *Handle[L]) tookLocked(h *Hold[L]) {
	if v.latest == h {
		return
	}
	v.latest = h
	if i := slices.Index(v.open, h); i >= 0 { // taken again after another one
		v.open = append(slices.Delete(v.open, i, i+1), h)
		return
	}
	if len(v.open) >= v.prune {
		v.open = slices.DeleteFunc(v.open, func(h *Hold[L]) bool { return h.count == 0 })
		v.prune = 2*len(v.open) + 2
	}
	v.open = append(v.open, h)
}

// lastLocked returns the newest hold taken through v that awaits an unlock, nil if there is none.
func (v *Handle[L]) lastLocked() *Hold[L] {
	for n := len(v.open); n > 0; n-- {
		if h := v.open[n-1]; h.count > 0 {
			return h
		}
		v.open[n-1] = nil
		v.open = v.open[:n-1]
	}
	return nil
}

// lostOf returns the hold on v's side of the lock that o lost and has not unlocked, nil if there is
// none.
func (v *Handle[L]) lostOf(o *Owner) *Hold[L] {
	h, _ := o.findLost(func(l lost) bool { return l.guard == v.guard && l.name == v.name && l.side == v.side }).(*Hold[L])
	return h
}

// admits reports whether o may have the lock now. It may not while a hold that it lost, on either
// side, awaits its unlock: the section that the loss has broken still runs.
func (v *Handle[L]) admits(o *Owner) bool {
	return o.findLost(func(l lost) bool { return l.guard == v.guard && l.name == v.name }) == nil
}

// MustUnlockFirst reports whether a call of o may not have the lock before a hold that it lost is
// unlocked.
func (v *Handle[L]) MustUnlockFirst(o *Owner) bool {
	v.guard.Lock()
	defer v.guard.Unlock()
	return !v.admits(o)
}
