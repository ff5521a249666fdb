package arbiter

import (
	"context"
	"slices"
	"sync"
)

// An Owner is an identity that may hold locks and re-enter those it holds. Owners are compared
// by address. A nil *Owner stands for an anonymous acquisition, which never re-enters.
type Owner struct {
	Minter any // whatever made the owner; not used here

	mu     sync.Mutex // protects the following
	queued int        // waiters of this owner in any queue
	due    []due      // unlocks of holds that were lost
}

// due is an unlock that an owner has still to make, of a hold that it lost. Only the owner keeps
// it: nothing is left when the owner is garbage.
type due struct {
	guard *guard // of the lock's shard
	name  string
	side  Side
	of    any // the lost *Hold[L], or a debt[L]
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

func (o *Owner) addDue(d due) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.due = append(o.due, d)
	o.mu.Unlock()
}

// removeDue removes the newest unlock that is due and matches, and returns what it is of.
func (o *Owner) removeDue(match func(due) bool) (of any) {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, d := range slices.Backward(o.due) {
		if match(d) {
			o.due = slices.Delete(o.due, i, i+1)
			return d.of
		}
	}
	return nil
}

// anyDue reports whether an unlock that is due matches.
func (o *Owner) anyDue(match func(due) bool) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.due, match)
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
