package acquire

import (
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
)

// Who waits for a lock that its own process has may wait for itself. So the error says it, and
// which kind of call has the lock: nothing tells which goroutine.

// lookMost is how many leases are looked at for one that no table knows.
const lookMost = 1000

// takenHere returns an error that says which call of this process has a lock that a call by o waits
// for; nil if none is known to have it.
func (n *Node) takenHere(l *Lock, o *local.Owner) error {
	now := n.Clock.Now()
	blocks := func(h *local.Hold) bool { // readers do not wait for readers
		return h != nil && h.State() == local.Live && !(h.Reads && l.kind.Joins())
	}
	for _, t := range n.tables {
		if h := t.Holder(l.keys.Name); blocks(h) {
			return Here(h, o, now)
		}
	}
	var last *local.Hold
	count := 0
	for _, on := range n.Leases.Of(l.keys.Name, lookMost) {
		switch of := on.Of.(type) {
		case *alone:
			if h := of.Load(); blocks(h) {
				count++
				last = h
			}
		case *Share:
			if of.held.Load() {
				return lockerr.Here("a Redlock", time.Duration(now-on.Since))
			}
		}
	}
	if count < max(l.config.Permits, 1) { // others have permits as well
		return nil
	}
	if l.config.Permits > 1 {
		calls := fmt.Sprintf("%d calls, one of them %s", count, callOf(last, o))
		return lockerr.Here(calls, time.Duration(now-last.Since))
	}
	return Here(last, o, now)
}

// Here returns an error for a call by o: it says by what kind of call this process has had a lock
// until now; nil if h is nil.
func Here(h *local.Hold, o *local.Owner, now int64) error {
	if h == nil {
		return nil
	}
	return lockerr.Here(callOf(h, o), time.Duration(now-h.Since))
}

// callOf says by what kind of call h was acquired, for a call by o.
func callOf(h *local.Hold, o *local.Owner) string {
	call := map[bool]string{true: "Lock", false: "Acquire or Do"}[h.Due()]
	if h.Reads {
		call = "a reader's " + call
	}
	switch {
	case h.Owner == nil:
		call += " without an owner"
	case h.Owner.Minter == nil:
		call = "a Group without an owner"
	case h.Owner == o:
		call += " of the same owner, through another type of lock"
	default:
		call += " of another owner"
	}
	return call
}
