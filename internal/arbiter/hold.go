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

// A Hold is one owner's possession of one lock. Its methods are safe for concurrent use.
type Hold[L comparable] struct {
	Owner    *Owner
	Token    int64 // fencing token
	Since    int64 // when it began, by the table's clock
	Passed   bool  // passed on by another goroutine of this process, not granted by Redis
	keep     int64 // for how long its lease may be kept after it
	side     Side
	state    atomic.Uint32 // a State; changed under mu
	count    int           // locks minus unlocks; guarded by the mutex of the name's shard
	recalled bool          // another process waits for the lock; guarded by the same
	unused   bool          // it was kept, and its lease is being released; guarded by the same

	mu    sync.Mutex // protects the following; lease is changed under the shard's mutex as well
	lease L          // the acquisition from Redis that it rests on
	cause error      // of the loss
	done  chan struct{}
	want  chan struct{}  // result of Wanted; nil: nobody has asked yet
	due   bool           // somebody else waits for the lock
	ends  []*func(State) // called when the hold ends
	calls []int64        // when the calls of Lock returned that were reported and are not over; oldest first
}

// Lease returns the acquisition from Redis that the hold rests on. A reader that joins a hold whose
// lease is not renewed changes it.
func (h *Hold[L]) Lease() L {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// OnEnd arranges for f to be called when the hold ends, at once if it has. f is called with
// the name's shard locked: it must neither block nor use the arbiter.
func (h *Hold[L]) OnEnd(f *func(State)) {
	h.mu.Lock()
	s := h.State()
	if s == Live {
		h.ends = append(h.ends, f)
	}
	h.mu.Unlock()
	if s != Live {
		(*f)(s)
	}
}

// Forget undoes one OnEnd of f. If the hold is ending, f may still be called.
func (h *Hold[L]) Forget(f *func(State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.ends, f); i >= 0 {
		h.ends = slices.Delete(h.ends, i, i+1)
	}
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

// Cause returns why the hold was lost, nil if it was not.
func (h *Hold[L]) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

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

// Wanted returns a channel that is closed once somebody else waits for the lock while it is held, and stays closed if
// he does not wait any more.
func (h *Hold[L]) Wanted() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.due {
		return Closed
	}
	if h.want == nil {
		h.want = make(chan struct{})
	}
	return h.want
}

// recall records that another process waits for the lock. The shard is locked.
func (h *Hold[L]) recall() {
	h.recalled = true
	h.wanted()
}

// wanted records that somebody else waits for the lock.
func (h *Hold[L]) wanted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.due && h.want != nil {
		close(h.want)
	}
	h.due = true
}

// End ends a live hold, with the cause of its loss if it is lost, and reports whether it was live.
func (h *Hold[L]) End(s State, cause error) bool {
	h.mu.Lock()
	if h.State() != Live {
		h.mu.Unlock()
		return false
	}
	h.state.Store(uint32(s))
	h.cause = cause
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

// What observers know of a hold: each call of Lock that was not a re-entry has a hold of its own,
// though the readers of a handle share one, and calls that waited under one owner enter together. A
// hold that nobody was told of, since its call was cancelled, ends without a word.

// Reported records that a call of Lock was reported, which returned now. If the loss of h was
// reported before, it returns the cause: the loss must be reported for this call, too.
func (h *Hold[L]) Reported(now int64) (lost error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.State() != Lost {
		h.calls = append(h.calls, now)
	}
	return h.cause
}

// Over returns when the calls returned that are over by an unlock of h: one of several readers,
// else all, and all by a loss.
func (h *Hold[L]) Over(all bool) (calls []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.calls)
	if !all {
		n = min(n, 1)
	}
	calls, h.calls = h.calls[:n:n], h.calls[n:]
	return calls
}
