package engine

import (
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
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
	case cause != lockerr.ErrGone && cause != lockerr.ErrForced || l.Kind.Joins():
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

// goneCause returns why Redis does not have l when that is to be released, though it is certain:
// the message that it was forced open finds no hold any more.
func (e *Engine) goneCause(l *lease.Lease) error {
	if e.forced.has(forcedID(l), l.Sent) {
		return lockerr.ErrForced
	}
	return lockerr.ErrGone
}

// SlotOf returns the slot of a hold, -1 if it is none of a semaphore.
func SlotOf(h Held) int {
	if h, ok := h.(*lease.Hold); ok && h.Lease().Kind.Slots() {
		return h.Lease().Slot
	}
	return -1
}
