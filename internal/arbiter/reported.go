package arbiter

// What observers know of a hold. For them each call of Lock that was not a re-entry has a hold of
// its own: readers without an owner share one through a handle, and calls that waited under one
// owner enter together. A hold that nobody was told of, since its call had been cancelled, ends
// without a word.

// reported is what was reported of a hold. The mutex of the hold guards it.
type reported struct {
	calls []int64        // when the reported calls of Lock returned; oldest first
	cause error          // of the loss, once that is reported
	after []*func(error) // called after that
}

// reportedLocked returns the record of h, a new one if there is none.
func (h *Hold[L]) reportedLocked() *reported {
	if h.reported == nil {
		h.reported = new(reported)
	}
	return h.reported
}

// Acquired records that a call of Lock was reported, which returned now. If the loss of h was
// reported before that, it returns the cause: the loss must be reported for this call, too.
func (h *Hold[L]) Acquired(now int64) (lost error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reportedLocked()
	if r.cause == nil {
		r.calls = append(r.calls, now)
	}
	return r.cause
}

// Released returns when the calls returned that an unlock of h ends: one for a hold without an
// owner, who may be several, else all.
func (h *Hold[L]) Released() (calls []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reported == nil {
		return nil
	}
	n := len(h.reported.calls)
	if h.Owner == nil {
		n = min(n, 1)
	}
	calls, h.reported.calls = h.reported.calls[:n:n], h.reported.calls[n:]
	return calls
}

// LossReported records why h was lost. It returns when the calls returned that this must be
// reported for, and what to call after that.
func (h *Hold[L]) LossReported(cause error) (calls []int64, after []*func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reportedLocked()
	if r.cause == nil {
		r.cause = cause
	}
	calls, after = r.calls, r.after
	r.calls, r.after = nil, nil
	return calls, after
}

// Cause returns why h was lost, nil if no loss was reported.
func (h *Hold[L]) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reported == nil {
		return nil
	}
	return h.reported.cause
}

// AfterLoss arranges for f to be called with the cause once the loss of h is reported, at once if
// it was. Nothing is locked then.
func (h *Hold[L]) AfterLoss(f *func(cause error)) {
	h.mu.Lock()
	r := h.reportedLocked()
	cause := r.cause
	if cause == nil {
		r.after = append(r.after, f)
	}
	h.mu.Unlock()
	if cause != nil {
		(*f)(cause)
	}
}

// ForgetLoss undoes one AfterLoss of f, unless h is lost: then f is called.
func (h *Hold[L]) ForgetLoss(f *func(cause error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.reported; r != nil && h.State() != Lost {
		r.after = remove(r.after, f)
	}
}
