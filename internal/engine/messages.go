package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// How what the subscription hears comes to the waiter or the hold that it names.

// heard handles a message, and reports whether it is not for those that wait for one on its
// channel: they get what tells that a lock was unlocked, but for the message that only Redisson
// understands. It does not block. The session itself hears:
//
//	wanted <hold id> <key>   another session waits for the lock with that key
//	lost <hold id> <key>     somebody has forced it open
//	granted, look            what the queue understands: see [queue.Queue.Heard]
func (e *Engine) heard(channel, message string) bool {
	switch {
	case message == wire.ForRedisson:
		return true
	case !wire.IsSessionChannel(channel) && !wire.IsGrantChannel(channel):
		return false
	}
	verb, rest, _ := strings.Cut(message, " ")
	id, key, ok := strings.Cut(rest, " ")
	ours := ok && wire.IsHoldOf(e.id, strings.TrimSuffix(id, ":write"))
	switch {
	case verb == "wanted" && ours:
		e.heardWanted(strings.TrimSuffix(id, ":write"), key)
	case verb == "lost" && ours:
		e.heardLost(id, key)
	case verb != "wanted" && verb != "lost":
		e.queue.Heard(message)
	}
	return true
}

// heardLost follows up the message that the hold with that id, of the lock with that key, was
// forced open.
func (e *Engine) heardLost(id, key string) {
	e.forced.add(id, e.Clock.Now()) // first: a hold granted or released meanwhile looks here
	if part, ok := e.parts.Load(id); ok && part.(*lease.Lease).Keys.Name == key {
		e.Lost(part.(*lease.Lease), lockerr.ErrForced)
	}
	if l := e.leaseOf(id, key); l != nil {
		e.Lost(l, lockerr.ErrForced)
	}
}

// heardWanted follows up the message that somebody waits for the lock at a key, which a hold of
// this session has.
func (e *Engine) heardWanted(id, key string) {
	e.overtaken.add(id, e.Clock.Now()) // first: a hold granted meanwhile is not found, and looks here at last
	if l := e.leaseOf(id, key); l != nil {
		e.recall(l)
	}
}

// forcedID returns the hold id of l as it stands in the message of a forced unlock.
func forcedID(l *lease.Lease) string { return strings.TrimSuffix(l.ID, ":write") }

// leasesOf returns the leases of the locks at a key.
func (e *Engine) leasesOf(key string) []*lease.Lease {
	as := &e.arbiters
	return slices.Concat(as[wire.Plain].Leases(key), as[wire.Fair].Leases(key), as[wire.Read].Leases(key), as[wire.Semaphore].Leases(key))
}

// leaseOf returns that of them which has a hold id, nil if none has.
func (e *Engine) leaseOf(id, key string) *lease.Lease {
	for _, k := range []wire.Kind{wire.Plain, wire.Fair, wire.Read, wire.Semaphore} {
		if l, found := e.arbiters[k].Find(key, id); found {
			return l
		}
	}
	return nil
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
