package arbiter

import (
	"slices"
	"sync"
	"sync/atomic"
)

// State is the state of a hold.
type State uint8

const (
	Live  State = iota // held
	Ended              // by its last unlock
	Lost               // before its last unlock
)

// Side is a side of a read-write lock.
type Side uint8

const (
	Write Side = iota // also of every other lock
	Read              // shared with other readers
)

// A Hold is one owner's possession of one lock. Its methods are safe for
// concurrent use.
type Hold[L comparable] struct {
	Owner  *Owner // nil: anonymous
	Lease  L      // the acquisition from Redis that it rests on
	Token  int64  // fencing token
	Since  int64  // when it began, by the table's clock
	Passed bool   // passed on by another goroutine of this process, not granted by Redis
	side   Side

	// guarded by the mutex of the name's shard
	noted      bool     // lost, and recorded as such
	count      int      // locks minus unlocks
	next, prev *Hold[L] // in the list of the name's read holds

	state atomic.Uint32 // a State; changed under mu

	mu       sync.Mutex     // protects the following
	done     chan struct{}  // made by the first Done
	ends     []*func(State) // called when the hold ends
	reported *reported      // nil: nothing
}

// OnEnd arranges for f to be called when the hold ends, at once if it has. f is called with
// the name's shard locked: it must neither block nor use the arbiter.
func (h *Hold[L]) OnEnd(f *func(State)) {
	h.mu.Lock()
	if h.State() == Live {
		h.ends = append(h.ends, f)
		h.mu.Unlock()
		return
	}
	s := h.State()
	h.mu.Unlock()
	(*f)(s)
}

// Forget undoes one OnEnd of f. If the hold is ending, f may still be called.
func (h *Hold[L]) Forget(f *func(State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = remove(h.ends, f)
}

// remove removes one f from a list.
func remove[F any](list []*F, f *F) []*F {
	if i := slices.Index(list, f); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// Watchers returns the number of functions that OnEnd has added. It is for tests.
func (h *Hold[L]) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ends)
}

// Fence returns the fencing token, 0 if the hold has none.
func (h *Hold[L]) Fence() int64 { return h.Token }

// State reports whether the hold is live and, if not, how it ended.
func (h *Hold[L]) State() State { return State(h.state.Load()) }

// Done returns a channel that is closed when the hold ends.
func (h *Hold[L]) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.State() != Live {
		return Closed
	}
	if h.done == nil {
		h.done = make(chan struct{})
	}
	return h.done
}

// End ends a live hold and reports whether it was live.
func (h *Hold[L]) End(s State) bool {
	h.mu.Lock()
	if h.State() != Live {
		h.mu.Unlock()
		return false
	}
	h.state.Store(uint32(s))
	if h.done != nil {
		close(h.done)
	}
	ends := h.ends
	h.ends = nil
	h.mu.Unlock()
	for _, f := range ends {
		(*f)(s)
	}
	return true
}

// Closed is a channel that is always closed.
var Closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
