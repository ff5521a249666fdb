package arbiter

import (
	"context"
	"sync"
	"sync/atomic"
)

// An Owner is who holds locks. Owners are compared by address.
//
// One that a context carries re-enters what it holds. The one of a handle, for calls without an owner in
// their context, never does: they exclude each other, as those of one sync.Mutex do, and those
// that read share a hold, which counts them.
type Owner struct {
	Minter any // whatever made the owner; not used here

	ofHandle bool
	of       *Owner       // that of the handle, if this is the owner of one call through it; see Handle.Many
	queued   atomic.Int32 // waiters of this owner in any queue
	losses   atomic.Int32 // the size of lost, and how many that it is the of of have lost; most often 0

	mu   sync.Mutex       // protects the following
	lost map[lockSide]any // holds that were lost and await an unlock, each a *Hold[L]; nobody else keeps them
}

// lockSide is one side of a lock.
type lockSide struct {
	guard *sync.Mutex // of the lock's shard
	name  string
	side  Side
}

// lostOn returns the hold on s that o lost and has not unlocked, nil if there is none.
func (o *Owner) lostOn(s lockSide) any {
	if o.losses.Load() == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost[s]
}

// setLost records that o lost hold on s, or if that is nil, that it has unlocked what it lost there.
func (o *Owner) setLost(s lockSide, hold any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = make(map[lockSide]any)
	}
	if o.lost[s] = hold; hold == nil {
		delete(o.lost, s)
	}
	n := int32(len(o.lost))
	if o.of != nil {
		o.of.losses.Add(n - o.losses.Load())
	}
	o.losses.Store(n)
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
