package arbiter

import (
	"context"
	"slices"
	"sync"
)

// An Owner is who holds locks. Owners are compared by address.
//
// One that a context carries re-enters what it holds. The one of a handle, for calls without an owner in
// their context, never does: they exclude each other, as those of one sync.Mutex do, and those
// that read share a hold, which counts them.
type Owner struct {
	Minter any // whatever made the owner; not used here

	ofHandle bool

	mu     sync.Mutex // protects the following
	queued int        // waiters of this owner in any queue
	lost   []lost     // holds that await an unlock; nobody else keeps them
}

// lost is a hold that was lost, on a side of a lock.
type lost struct {
	guard *sync.Mutex // of the lock's shard
	name  string
	side  Side
	hold  any // a *Hold[L]
}

// count adds d to the number of queued waiters.
func (o *Owner) count(d int) {
	o.mu.Lock()
	o.queued += d
	o.mu.Unlock()
}

// hasQueued reports whether waiters of o are to be let in together with it.
func (o *Owner) hasQueued() bool {
	if o.ofHandle {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued > 0
}

func (o *Owner) addLost(l lost) {
	o.mu.Lock()
	o.lost = append(o.lost, l)
	o.mu.Unlock()
}

func (o *Owner) removeLost(hold any) {
	o.mu.Lock()
	o.lost = slices.DeleteFunc(o.lost, func(l lost) bool { return l.hold == hold })
	o.mu.Unlock()
}

// findLost returns the hold of the first that matches, nil if none does.
func (o *Owner) findLost(match func(lost) bool) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.lost, match); i >= 0 {
		return o.lost[i].hold
	}
	return nil
}

type ownerKey struct{}

// WithOwner returns ctx with owner o in it.
func WithOwner(ctx context.Context, o *Owner) context.Context {
	if OwnerOf(ctx) == o {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerOf returns the owner in ctx, nil if there is none.
func OwnerOf(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}
