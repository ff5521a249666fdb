package relock

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
)

// What ends what was taken.
const (
	byLock = true  // an Unlock of the lock
	byHold = false // its Hold
)

// A handle is the memory of a lock value: the holds that were locked through it and have not been
// unlocked. The lock types embed one; the read side of an RWMutex is another.
//
// A hold that Acquire takes is the caller's alone: a handle neither ends nor describes it.
type handle struct {
	l     acquire.Member
	crowd *local.Crowd // of readers without an owner, who share a hold; nil: each call has its own

	mu   sync.Mutex     // protects the following
	due  []acquire.Held // to be unlocked, each once, oldest first; an owner's Unlock through another handle may have ended some
	last acquire.Held   // that was locked last; nil: none
}

// Lock waits for the lock; see [Locker].
func (h *handle) Lock(ctx context.Context) error {
	_, err := h.lock(ctx, true)
	return err
}

// TryLock makes one attempt; see [Locker].
func (h *handle) TryLock(ctx context.Context) (bool, error) { return h.lock(ctx, false) }

func (h *handle) lock(ctx context.Context, wait bool) (bool, error) {
	o, crowd := local.OwnerOf(ctx), h.crowd
	if o != nil {
		crowd = nil
	}
	held, err := h.l.Take(ctx, o, crowd, wait, byLock)
	if held == nil {
		return false, err
	}
	h.took(held)
	return true, nil
}

// Acquire is like Lock, and returns a [Hold].
func (h *handle) Acquire(ctx context.Context) (*Hold, error) { return h.acquire(ctx, true) }

// TryAcquire makes one attempt: it returns a [Hold], or [ErrTaken].
func (h *handle) TryAcquire(ctx context.Context) (*Hold, error) {
	hold, err := h.acquire(ctx, false)
	if hold == nil && err == nil {
		err = lockerr.New("try lock", h.l.Name(), ErrTaken)
	}
	return hold, err
}

func (h *handle) acquire(ctx context.Context, wait bool) (*Hold, error) {
	held, err := h.l.Take(ctx, local.OwnerOf(ctx), nil, wait, byHold)
	if held == nil {
		return nil, err
	}
	return &Hold{l: h.l, held: held}, nil
}

// took notes that held was locked.
func (h *handle) took(held acquire.Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held == h.last && len(h.due) > 0 && h.due[len(h.due)-1] == held { // a re-entry, or a reader that joins
		return
	}
	full := len(h.due) == cap(h.due)
	if full || held.Shared() {
		h.due = slices.DeleteFunc(h.due, func(old acquire.Held) bool { return old == held || full && !old.Due() })
	}
	h.due, h.last = append(h.due, held), held
}

// Unlock ends one Lock; see [Locker].
func (h *handle) Unlock(ctx context.Context) error {
	if o := local.OwnerOf(ctx); o != nil {
		return h.l.ReleaseOf(ctx, o)
	}
	for {
		held, another := h.next()
		if held == nil {
			return h.l.NotHeld()
		}
		err := h.l.Release(ctx, held, byLock)
		switch {
		case err == acquire.ErrNotDue: // another Unlock was faster
			continue
		case another && errors.Is(err, ErrLost):
			err = lockerr.Join(err, errAnother)
		}
		return err
	}
}

var errAnother = errors.New("another hold of this lock value still lives, and needs an Unlock of its own")

// next returns what the next Unlock without an owner ends: what was lost, else what was locked
// last; nil if there is nothing. another reports that it was lost, and that another one lives.
func (h *handle) next() (next acquire.Held, another bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = slices.DeleteFunc(h.due, func(held acquire.Held) bool { return !held.Due() })
	for _, held := range h.due {
		if held.State() == local.Lost {
			return held, slices.ContainsFunc(h.due, func(d acquire.Held) bool { return d.State() == local.Live })
		}
	}
	if len(h.due) == 0 {
		return nil, false
	}
	next = h.due[len(h.due)-1]
	if h.crowd != nil && alone(next) { // of readers with leases of their own the one that lasts longest stays
		next = h.due[slices.IndexFunc(h.due, alone)]
	}
	return next, false
}

// alone reports whether held is a hold without an owner, with a lease of its own.
func alone(held acquire.Held) bool {
	h, ok := held.(*local.Hold)
	return ok && h.Alone && h.Owner == nil
}

// latest returns what was locked last and is to be unlocked, else what was locked last at all,
// which may have ended; nil if there is nothing, or if only an owner's Acquire still holds it.
func (h *handle) latest() acquire.Held {
	h.mu.Lock()
	held := h.last
	for _, due := range slices.Backward(h.due) {
		if due.Due() {
			held = due
			break
		}
	}
	h.mu.Unlock()
	if held == nil {
		return nil
	}
	h.l.Refresh(held)
	if held.State() == local.Live && !held.Due() { // an owner's Acquire holds it
		return nil
	}
	return held
}

// Done's channel is closed when the hold ends; see [Locker].
func (h *handle) Done() <-chan struct{} {
	if held := h.latest(); held != nil {
		return held.Done()
	}
	return local.Closed
}

// Err returns nil while the lock is held; see [Locker].
func (h *handle) Err() error {
	held := h.latest()
	switch {
	case held == nil || held.State() == local.Ended:
		return lockerr.New("lock", h.l.Name(), ErrNotHeld)
	case held.State() == local.Lost:
		return lockerr.New("lock", h.l.Name(), held.Cause())
	}
	return nil
}

// A named handle is that of a lock with a name and a token.
type named struct{ handle }

// Name returns the lock's name.
func (h *named) Name() string { return h.l.Name() }

// FencingToken returns the hold's token, or 0; see [Locker].
func (h *named) FencingToken() int64 {
	if held := h.latest(); held != nil && held.State() != local.Ended {
		return held.Fence()
	}
	return 0
}

// handleOf returns the handle of a lock of this package; nil for other types, also for one that
// embeds a lock of this package, whose methods it may have replaced.
func handleOf(l Locker) *handle {
	switch l := l.(type) {
	case *Mutex:
		return &l.handle
	case *FairMutex:
		return &l.handle
	case *RWMutex:
		return &l.handle
	case *handle: // RLocker
		return l
	case *Semaphore:
		return &l.handle
	case *Group:
		return &l.handle
	case *Redlock:
		return &l.handle
	}
	return nil
}
