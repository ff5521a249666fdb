package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/wire"
)

// How a holder hears that somebody else waits for its lock. The arbiter sees those of this process.
// Of the others the first one in the queue sends a message when it queues, and whenever it looks; a
// grant says whether some wait already.

// heardWanted follows up the message that somebody waits for the lock at a key, which a hold of
// this session has.
func (e *Engine) heardWanted(id, key string) {
	e.overtaken.add(id, e.Clock.Now()) // first: a hold granted meanwhile is not found, and looks here at last
	if l := e.leaseOf(id, key); l != nil {
		e.recall(l)
	}
}

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

// named are the hold ids that messages of a kind have named last. A message may overtake the reply
// that grants the hold, or come while the hold is being released. They are few: the next look of a
// waiter repeats that the lock is wanted, and a renewal tells that it was forced open.
type named struct {
	at atomic.Int64 // a moment after the last one was named

	mu   sync.Mutex // protects the following
	ids  [64]string
	next int
}

// add adds an id, which was named now.
func (o *named) add(id string, now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids[o.next%len(o.ids)] = strings.Clone(id)
	o.next++
	o.at.Store(now + 1)
}

// has reports whether an id was named since its acquisition was sent.
func (o *named) has(id string, sent int64) bool {
	if o.at.Load() <= sent {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.ids[:], id)
}

// WantedOf returns a channel that is closed when somebody else waits for the lock of h while it is
// held. It is nil for readers, whose waiters are not told of, and for what is no lock of one
// engine.
func WantedOf(h Held) <-chan struct{} {
	if h, ok := h.(*lease.Hold); ok && h.Lease().Kind != wire.Read {
		return h.Wanted()
	}
	return nil
}
