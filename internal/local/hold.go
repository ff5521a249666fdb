package local

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

// End ends a live hold, with the cause of its loss if it is lost, and reports whether it was live.
func (h *Life) End(s State, cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.State() != Live {
		return false
	}
	h.state.Store(uint32(s))
	h.cause = cause
	if h.done != nil {
		close(h.done)
	}
	return true
}

// OnLoss arranges for f to be called when the hold is lost, at once if it has been: by [Life.Tell],
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

// What observers know of a hold: each call of Lock that was not a re-entry has a hold of its own,
// though the readers of a lock value share one, and calls that waited under one owner enter
// together. The end of a hold is not reported if its call was not: it was cancelled.

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

// Closed is a channel that is always closed.
var Closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// A Hold is one acquisition of one lock: by a call, or by several of one owner, or of readers that
// share it. Each call that was granted it ends it once; the last end ends the hold. Its methods are
// safe for concurrent use.
type Hold struct {
	Life
	Lease  *Lease // that it rests on
	Owner  *Owner // nil: the call had none
	Token  int64  // fencing token; 0: it has none
	Since  int64  // when it began
	Keep   int64  // for how long its lease may be kept after it
	Reads  bool   // it is a reader's
	Passed bool   // another call of this process had its lease before
	Alone  bool   // its lease is its own: it is in no table

	shared bool          // other calls may be granted it as well
	calls  atomic.Uint64 // that were granted it and have not ended; above dueShift, how many of these are due to an Unlock of the lock

	more  sync.Mutex    // protects the following
	want  chan struct{} // result of Wanted; nil: nobody has asked yet
	wants bool          // somebody else waits for the lock
}

const dueShift = 32

// NewHold returns a hold on l for a call, which an Unlock of the lock is to end if due. It is in no
// table. Of a reader it may be entered by those in its section.
func NewHold(l *Lease, o *Owner, reads, due bool, now int64) *Hold {
	h := &Hold{Lease: l, Owner: o, Token: l.Token, Since: now, Reads: reads, Alone: true, shared: o != nil || reads}
	h.calls.Store(one(due))
	return h
}

// one returns what one call counts.
func one(due bool) uint64 {
	if due {
		return 1<<dueShift + 1
	}
	return 1
}

// Enter counts one call more, and reports false if the last one has ended.
func (h *Hold) Enter(due bool) bool {
	for {
		n := h.calls.Load()
		if n == 0 {
			return false
		}
		if h.calls.CompareAndSwap(n, n+one(due)) {
			return true
		}
	}
}

// Leave counts one call less, one that is due if due. It reports whether there was such a call, and
// whether that was the last one.
func (h *Hold) Leave(due bool) (ok, last bool) {
	for {
		n := h.calls.Load()
		all, ofLock := uint32(n), uint32(n>>dueShift)
		if due && ofLock == 0 || !due && all == ofLock {
			return false, false
		}
		if h.calls.CompareAndSwap(n, n-one(due)) {
			return true, all == 1
		}
	}
}

// LeaveInner is Leave of a call that is due and not the last one, and reports whether it was.
func (h *Hold) LeaveInner() bool {
	n := h.calls.Load()
	return uint32(n) > 1 && n>>dueShift > 0 && h.calls.CompareAndSwap(n, n-one(true))
}

// Due reports whether an Unlock of the lock, not of what was acquired, is to end h.
func (h *Hold) Due() bool { return h.calls.Load()>>dueShift > 0 }

// Shared reports whether other calls may be granted h as well.
func (h *Hold) Shared() bool { return h.shared }

// Fence returns the fencing token, 0 if the hold has none.
func (h *Hold) Fence() int64 { return h.Token }

// Wanted returns a channel that is closed once somebody else waits for the lock while it is held,
// and stays closed if he does not wait any more.
func (h *Hold) Wanted() <-chan struct{} {
	h.more.Lock()
	defer h.more.Unlock()
	if h.wants {
		return Closed
	}
	if h.want == nil {
		h.want = make(chan struct{})
	}
	return h.want
}

// SetWanted records that somebody else waits for the lock.
func (h *Hold) SetWanted() {
	h.more.Lock()
	defer h.more.Unlock()
	if !h.wants && h.want != nil {
		close(h.want)
	}
	h.wants = true
}
