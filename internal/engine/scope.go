package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
)

// A Scope is the context of Do's function, as far as it knows of that Do: the hold that it took.
// It is found through contexts derived from it, the innermost Do first.
type Scope struct {
	context.Context
	lock  Member // nil: of a type that this module does not know
	owner *arbiter.Owner
	hold  Held        // nil: unknown
	over  atomic.Bool // the function has returned

	Lost error // the cause with which Do cancelled its function's context, nil if it did not; Do's own
}

type scopeKey struct{}

func (s *Scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// NewScope returns the context for a function under the hold of l that o has just taken. A nil l
// is a lock of a type that this module does not know.
func NewScope(ctx context.Context, l Member, o *arbiter.Owner) *Scope {
	s := &Scope{Context: ctx, lock: l, owner: o}
	if l != nil {
		s.hold = l.HeldBy(o)
	}
	return s
}

// ScopeOf returns the scope of the innermost Do that ctx comes from, nil if there is none.
func ScopeOf(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// Leave ends the scope: its function has returned.
func (s *Scope) Leave() { s.over.Store(true) }

// Ended returns a channel that is closed when the hold ends.
func (s *Scope) Ended() <-chan struct{} {
	if s.hold == nil {
		return arbiter.Closed
	}
	return s.hold.Done()
}

// Cause returns why the hold was lost, ErrLost if it is not known.
func (s *Scope) Cause() error {
	if s.hold != nil && s.hold.Cause() != nil {
		return s.hold.Cause()
	}
	return lockerr.ErrLost
}

// Token returns the fencing token of the hold, also after its end; 0 if it has none.
func (s *Scope) Token() int64 {
	if s == nil || s.hold == nil {
		return 0
	}
	return s.hold.Fence()
}

// Slot returns that of the hold, also after its end; -1 if it has none.
func (s *Scope) Slot() int {
	if s == nil || s.hold == nil {
		return -1
	}
	return SlotOf(s.hold)
}

// Wanted returns a channel that is closed when somebody else waits for the lock; nil if that is not told.
func (s *Scope) Wanted() <-chan struct{} {
	if s == nil {
		return nil
	}
	if h, ok := s.hold.(*lease.Hold); ok {
		return wantedOf(h)
	}
	return nil
}

// HoldDeadline returns until when the hold is certain, if it is live and that is known.
func (s *Scope) HoldDeadline() (time.Time, bool) {
	if s == nil || s.hold == nil || s.over.Load() {
		return time.Time{}, false
	}
	return s.lock.DeadlineOf(s.hold)
}

// around reports whether f is true for a part with the key of p that a Do has now, of those that ctx
// comes from.
func (p Part) around(ctx context.Context, f func(s *Scope, q Part) bool) bool {
	for s := ScopeOf(ctx); s != nil; s = ScopeOf(s.Context) {
		if s.hold == nil || s.over.Load() {
			continue
		}
		for _, q := range s.lock.Taken(s.hold, p.Key) {
			if f(s, q) {
				return true
			}
		}
	}
	return false
}

// WaitsForItself reports whether a Lock of p by o under ctx would wait for a Do that ctx comes from, of the
// same session. Readers do not wait for readers: see readAround.
func (p Part) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	var owners []*arbiter.Owner // each has one hold, however often it has entered
	return p.around(ctx, func(s *Scope, q Part) bool {
		switch {
		case p.Shared && q.Shared, p.Engine != q.Engine:
		case (p.Family == semaphores) != (q.Family == semaphores): // it is told that this is no lock of its kind
		case (o != s.owner || p.Family != q.Family) && !slices.Contains(owners, s.owner): // otherwise it enters again
			owners = append(owners, s.owner)
			return len(owners) >= p.Most
		}
		return false
	})
}

// readAround reports whether a Do that ctx comes from reads what p would read, in the same
// session. Then p must not wait for a writer, who waits for that Do.
func (p Part) readAround(ctx context.Context) bool {
	return p.around(ctx, func(_ *Scope, q Part) bool { return q.Shared && q.Engine == p.Engine })
}
