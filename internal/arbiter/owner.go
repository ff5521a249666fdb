package arbiter

import (
	"context"
	"sync"
	"sync/atomic"
)

// An Owner is who may enter again what it holds, from [NewOwner]. Owners are compared by address. A
// call without one has a hold of its own.
//
// The zero Owner is a crowd: readers of different goroutines that share one hold, which counts
// them. It does not enter again, and has nothing to unlock first.
type Owner struct {
	Minter any // who made the owner; not used here

	enters bool         // not a crowd
	queued atomic.Int32 // waiters of this owner in any queue
	losses atomic.Int32 // size of lost; most often 0

	mu   sync.Mutex       // protects the following
	lost map[lockSide]any // holds that were lost and await an unlock, each a *Hold[L]; only the owner keeps them
}

// NewOwner returns an owner.
func NewOwner(minter any) *Owner { return &Owner{Minter: minter, enters: true} }

// lostOn returns the hold on s that o lost and has not unlocked, nil if there is none.
func (o *Owner) lostOn(s lockSide) any {
	if o == nil || o.losses.Load() == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost[s]
}

// setLost records that o lost hold on s, or if that is nil, that it has unlocked what it lost
// there.
func (o *Owner) setLost(s lockSide, hold any) {
	if !o.enters {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = make(map[lockSide]any)
	}
	if o.lost[s] = hold; hold == nil {
		delete(o.lost, s)
	}
	o.losses.Store(int32(len(o.lost)))
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
