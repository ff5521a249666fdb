package engine

import (
	"github.com/relock-go/relock/internal/lease"
)

// How a holder hears that somebody else waits for its lock. The arbiter sees those of this process.
// Of the others the first one in the queue sends a message when it queues, and whenever it looks; a
// grant says whether some wait already.

// recall records that another process waits for the lock that l is for. If it is kept, it is
// released.
func (e *Engine) recall(l *lease.Lease) {
	e.track()
	defer e.End()
	dropped := e.arbiters[l.Kind].Recall(l.Keys.Name, l)
	if dropped || l.Keeps {
		e.keeper.recalled(l.Keys.Name)
	}
	if dropped {
		e.dropped(l)
	}
}

// drop releases l if it is kept, and reports whether it was.
func (e *Engine) drop(l *lease.Lease) bool {
	e.track() // or Close might see it neither kept nor released
	defer e.End()
	kept := e.arbiters[l.Kind].Drop(l.Keys.Name, l)
	if kept {
		e.dropped(l)
	}
	return kept
}

// dropped releases l, which was kept. Nobody has it: who waits meanwhile waits for Redis.
func (e *Engine) dropped(l *lease.Lease) {
	e.keeper.forget(l)
	l.Late.Store(true)
	e.releaseLater(l)
}

// WantedOf returns a channel that is closed when somebody else waits for the lock of h while it is
// held. It is nil for readers, whose waiters are not told of, and for what is no lock of one
// engine.
func WantedOf(h Held) <-chan struct{} {
	if h, ok := h.(*lease.Hold); ok && !h.Lease().Kind.Joins() {
		return h.Wanted()
	}
	return nil
}
