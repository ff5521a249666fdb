package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// How holds are lost.

// Lost ends the local holds on a lease that is lost, and reports the loss. It implements
// lease.Owner.
func (e *Engine) Lost(l *lease.Lease, cause error) {
	if l.OnLost != nil {
		if _, held := e.parts.LoadAndDelete(forcedID(l)); held {
			e.lost(l, cause, nil)
			l.OnLost(cause)
		}
		return
	}
	e.keeper.forget(l) // also if an adopted hold has taken its place
	if holds, kept := e.arbiters[l.Kind].Lose(l.Keys.Name, l, cause); kept || len(holds) > 0 {
		e.lost(l, cause, holds)
	}
}

// Renewed implements lease.Owner.
func (e *Engine) Renewed(n int, took time.Duration, first error) {
	if o := e.Config.Observer; o != nil {
		o.Renewed(event.Renew{Holds: n, Duration: took, Err: lockerr.New("renew", "", first)})
	}
}

// lost follows up the loss of the holds on a lease: only a read lease may have several.
func (e *Engine) lost(l *lease.Lease, cause error, holds []*lease.Hold) {
	e.watchdog.Remove(l)
	for _, h := range holds {
		h.Tell()
	}
	switch {
	case cause == lockerr.ErrLostAtClose:
		e.releaseClosed(l)
	case cause != lockerr.ErrGone && cause != lockerr.ErrForced || l.Kind == wire.Read:
		e.cleaner.Add(l, l.Indeterminate, nil) // its keys may outlive our deadline
	}
	for _, h := range holds { // last: an observer may panic
		ReportLoss(e.Config.Observer, h, e.nameOf(l.Keys.Name), kinds[l.Kind])
	}
}

// loseIfExpired loses a live hold whose lease is not certain any more, and reports whether that is
// so. A process that was frozen may look before its watchdog does.
func (l *Lock) loseIfExpired(h *lease.Hold) bool {
	on := h.Lease()
	if h.State() != arbiter.Live || lease.Certain(on, l.e.Clock.Now()) {
		return false
	}
	l.e.Lost(on, lockerr.ErrExpired)
	return true
}

// Heard handles a message, and reports whether it is not for those who wait for one on its channel.
// To the session itself is said "lost <hold id> <key>" if somebody forced the lock with that key
// open, "wanted <hold id> <key>" if another session waits for it, or what the queue understands. A message that a
// lock was unlocked is for those who wait, but for the one that only Redisson understands. Heard
// does not block.
func (e *Engine) Heard(channel, message string) bool {
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
	case verb == "wanted":
		if ours {
			e.heardWanted(strings.TrimSuffix(id, ":write"), key)
		}
	case verb != "lost":
		e.queue.Heard(message)
	case ours:
		e.forced.add(id, e.Clock.Now()) // first: a hold granted or released meanwhile looks here
		if part, ok := e.parts.Load(id); ok && part.(*lease.Lease).Keys.Name == key {
			e.Lost(part.(*lease.Lease), lockerr.ErrForced)
		}
		if l := e.leaseOf(id, key); l != nil {
			e.Lost(l, lockerr.ErrForced)
		}
	}
	return true
}

// goneCause returns why Redis does not have l when that is to be released, though it is certain:
// the message that it was forced open finds no hold any more.
func (e *Engine) goneCause(l *lease.Lease) error {
	if e.forced.has(forcedID(l), l.Sent) {
		return lockerr.ErrForced
	}
	return lockerr.ErrGone
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

// SlotOf returns the slot of a hold, -1 if it is none of a semaphore.
func SlotOf(h Held) int {
	if h, ok := h.(*lease.Hold); ok && h.Lease().Kind == wire.Semaphore {
		return h.Lease().Slot
	}
	return -1
}
