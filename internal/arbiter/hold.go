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

// A Life is whether a hold lives, and what has ended it. Its methods are safe for concurrent use.
type Life struct {
	state atomic.Uint32 // a State; changed under mu

	mu    sync.Mutex // protects the following
	cause error      // of the loss
	done  chan struct{}
	told  bool      // Tell was called
	lost  []*func() // called when the hold is lost
	calls []int64   // when the calls of Lock returned that were reported and are not over; oldest first
}

// A Hold is one owner's possession of one lock, or that of one call without an owner. Its methods
// are safe for concurrent use.
type Hold[L comparable] struct {
	Life
	Owner  *Owner // of a call without one: alone
	alone  Owner
	Token  int64 // fencing token
	Since  int64 // when it began, by the table's clock
	Passed bool  // passed on by another goroutine of this process, not granted by Redis
	keep   int64 // for how long its lease may be kept after it
	side   Side

	// Guarded by the mutex of the name's shard.
	count    int          // calls that it was granted to minus those that have ended
	locks    atomic.Int32 // how many of these are due to an Unlock of the lock
	recalled bool         // another process waits for the lock
	unused   bool         // it was kept, and its lease is being released

	more  sync.Mutex    // protects the following; lease is changed under the shard's mutex as well
	lease L             // the acquisition from Redis that it rests on
	want  chan struct{} // result of Wanted; nil: nobody has asked yet
	due   bool          // somebody else waits for the lock
}

// Lease returns the acquisition from Redis that the hold rests on. A reader that joins a hold whose
// lease is not renewed changes it.
func (h *Hold[L]) Lease() L {
	h.more.Lock()
	defer h.more.Unlock()
	return h.lease
}

// OnLoss arranges for f to be called when the hold is lost, at once if it has been: by [Hold.Tell],
// and so with no mutex locked.
func (h *Life) OnLoss(f *func()) {
	h.mu.Lock()
	now := h.told
	if !now {
		h.lost = append(h.lost, f)
	}
	h.mu.Unlock()
	if now {
		(*f)()
	}
}

// Forget undoes one OnLoss of f. If the hold is being lost, f may still be called.
func (h *Life) Forget(f *func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.lost, f); i >= 0 {
		h.lost = slices.Delete(h.lost, i, i+1)
	}
}

// Tell calls the functions of OnLoss. It follows the loss of h, with no mutex locked.
func (h *Life) Tell() {
	h.mu.Lock()
	h.told = true
	lost := h.lost
	h.lost = nil
	h.mu.Unlock()
	for _, f := range lost {
		(*f)()
	}
}

// Watchers returns the number of functions that OnLoss has added. It is for tests.
func (h *Life) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lost)
}

// Shared reports whether other calls may be granted h as well.
func (h *Hold[L]) Shared() bool { return h.Owner != &h.alone }

// Due reports whether an Unlock of the lock, not of what was acquired, is to end h.
func (h *Hold[L]) Due() bool { return h.locks.Load() > 0 }

// Fence returns the fencing token, 0 if the hold has none.
func (h *Hold[L]) Fence() int64 { return h.Token }

// State reports whether the hold is live and, if not, how it ended.
func (h *Life) State() State { return State(h.state.Load()) }

// Cause returns why the hold was lost, nil if it was not.
func (h *Life) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// Done returns a channel that is closed when the hold ends.
func (h *Life) Done() <-chan struct{} {
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

// Wanted returns a channel that is closed once somebody else waits for the lock while it is held,
// and stays closed if he does not wait any more.
func (h *Hold[L]) Wanted() <-chan struct{} {
	h.more.Lock()
	defer h.more.Unlock()
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
	h.more.Lock()
	defer h.more.Unlock()
	if !h.due && h.want != nil {
		close(h.want)
	}
	h.due = true
}

// End ends a live hold, with the cause of its loss if it is lost, and reports whether it was live.
func (h *Life) End(s State, cause error) bool {
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
	h.mu.Unlock()
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
func (h *Life) Reported(now int64) (lost error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.State() != Lost {
		h.calls = append(h.calls, now)
	}
	return h.cause
}

// Over returns when the calls returned that are over by an unlock of h: one of several readers,
// else all, and all by a loss.
func (h *Life) Over(all bool) (calls []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.calls)
	if !all {
		n = min(n, 1)
	}
	calls, h.calls = h.calls[:n:n], h.calls[n:]
	return calls
}
