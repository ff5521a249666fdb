package arbiter

import (
	"context"
	"sync"
)

// An Owner is an identity that may hold locks and re-enter those it holds. Owners are compared
// by address. A nil *Owner stands for an anonymous acquisition, which never re-enters.
type Owner struct {
	Minter any // whatever made the owner; not used here

	mu     sync.Mutex
	queued int // waiters of this owner in any queue; guarded by mu
}

// count adds d to the number of queued waiters.
func (o *Owner) count(d int) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.queued += d
	o.mu.Unlock()
}

func (o *Owner) hasQueued() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued > 0
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
