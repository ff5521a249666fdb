package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
)

// latest returns the latest hold, nil if there was none. If its deadline has passed it is lost
// now: a process that was frozen may look before its watchdogs do.
func (r *Redlock) latest() *locked {
	if r == nil {
		return nil
	}
	h := r.handle.Latest()
	loseIfExpired(h)
	return h
}

func loseIfExpired(h *locked) {
	if h != nil && h.State() == arbiter.Live && h.Lease.left() <= 0 {
		h.Lease.expire()
	}
}

// Done returns a channel that is closed when the latest hold taken through r ends.
func (r *Redlock) Done() <-chan struct{} {
	if h := r.latest(); h != nil {
		return h.Done()
	}
	return arbiter.Closed
}

// Err returns nil while the latest hold taken through r is held, else ErrLost or ErrNotHeld.
func (r *Redlock) Err() error {
	const op = "lock"
	h := r.latest()
	if h == nil {
		return lockerr.Join(r.usable(op), lockerr.New(op, r.Name(), lockerr.ErrNotHeld))
	}
	return engine.StateErr(op, r.name, h.State())
}

// Deadline returns until when the latest hold taken through r is certain, if it is live.
func (r *Redlock) Deadline() (time.Time, bool) {
	h := r.latest()
	if h == nil {
		return time.Time{}, false
	}
	return r.DeadlineOf(h)
}

// The following make a Redlock an engine.Member.

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (r *Redlock) HeldBy(o *arbiter.Owner) engine.Held {
	if h := r.queue.Newest(&r.handle, o, arbiter.Write); h != nil {
		return h
	}
	return nil
}

// DeadlineOf returns until when h is certain, if it is live.
func (r *Redlock) DeadlineOf(h engine.Held) (time.Time, bool) {
	if h.State() != arbiter.Live {
		return time.Time{}, false
	}
	return time.Now().Add(h.(*locked).Lease.left()), true
}

// Taken returns the locks with a key that h, if it is live, has on the deployments.
func (r *Redlock) Taken(h engine.Held, key string) (taken []engine.Part) {
	loseIfExpired(h.(*locked))
	if h.State() != arbiter.Live {
		return nil
	}
	of := h.(*locked).Lease
	for i, p := range r.Parts() {
		if p.Key == key && of.has(i) {
			taken = append(taken, p)
		}
	}
	return taken
}

// WaitsForItself reports whether Lock by o would wait for Dos that ctx comes from, because they
// leave no majority.
func (r *Redlock) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	return engine.ScopeOf(ctx) != nil && engine.CountWaits(ctx, o, r.Parts()) > len(r.nodes)-r.quorum()
}

// ExpireIfDue loses the hold of o if its deadline has passed.
func (r *Redlock) ExpireIfDue(o *arbiter.Owner) {
	if r.queue != nil {
		loseIfExpired(r.queue.HoldOf(&r.handle, o, arbiter.Write))
	}
}

// Order puts Redlocks after the other locks of a key.
func (r *Redlock) Order() (key string, rank int) { return r.key, 2 }

// Engines returns none: a Redlock can be acquired without any of them.
func (r *Redlock) Engines() []*engine.Engine { return nil }

// Remaining is unbounded: o has one hold at a time.
func (r *Redlock) Remaining(*arbiter.Owner) time.Duration { return time.Duration(lease.Forever) }

// Parts returns the lock of each deployment. Redlocks over the same sessions are the same lock.
func (r *Redlock) Parts() (all []engine.Part) {
	for _, n := range r.nodes {
		part := n.Parts()[0]
		part.Family = "redlock " + r.handle.Name()
		all = append(all, part)
	}
	return all
}

// Queued returns how many calls wait for another one of this process, for tests.
func (r *Redlock) Queued() int { return r.queue.Waiting(r.handle.Name(), arbiter.Write) }
