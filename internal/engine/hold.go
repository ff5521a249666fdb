package engine

import (
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
)

// What every lock type reports of the latest hold taken through it.

// Done returns a channel that is closed when the latest hold ends.
func (b *base) Done() <-chan struct{} {
	h := b.handle.Latest()
	if h == nil {
		return arbiter.Closed
	}
	b.expireIfDue(h)
	b.e.watchdog.Watched()
	return h.Done()
}

// Err returns nil while the latest hold is held, else ErrLost or ErrNotHeld.
func (b *base) Err() error {
	const op = "lock"
	if b.e == nil {
		return lockerr.Join(b.usable(op), lockerr.ErrNotHeld)
	}
	h := b.handle.Latest()
	if h == nil {
		return lockerr.New(op, b.Name(), lockerr.ErrNotHeld)
	}
	b.expireIfDue(h)
	return StateErr(op, b.Name(), h.State())
}

// StateErr returns the result of Err for a hold in state s.
func StateErr(op, name string, s arbiter.State) error {
	switch s {
	case arbiter.Lost:
		return lockerr.New(op, name, lockerr.ErrLost)
	case arbiter.Ended:
		return lockerr.New(op, name, lockerr.ErrNotHeld)
	}
	return nil
}

// FencingToken returns the token of the latest hold, also after its loss; 0 if there is none.
func (b *base) FencingToken() int64 {
	h := b.handle.Latest()
	if h == nil || h.State() == arbiter.Ended {
		return 0
	}
	return h.Token
}

// Deadline returns until when the latest hold is certain, if it is live.
func (b *base) Deadline() (time.Time, bool) {
	h := b.handle.Latest()
	if h == nil {
		return time.Time{}, false
	}
	return b.DeadlineOf(h)
}

// HoldOf returns the live hold of o, nil if there is none.
func (b *base) HoldOf(o *arbiter.Owner) *lease.Hold {
	if b.e == nil {
		return nil
	}
	b.e.watchdog.Watched()
	return b.arb.HoldOf(&b.handle, o, b.side())
}

// expireIfDue loses a live hold whose deadline has passed. A process that was frozen may look
// before its watchdog does.
func (b *base) expireIfDue(h *lease.Hold) {
	if h.State() == arbiter.Live {
		b.loseIfExpired(h)
	}
}

// loseIfExpired loses a hold whose lease is not certain any more, and reports whether that is so.
func (b *base) loseIfExpired(h *lease.Hold) bool {
	if lease.Certain(h.Lease, b.e.Clock.Now()) {
		return false
	}
	b.e.lose(h.Lease, lease.ErrExpired)
	return true
}
