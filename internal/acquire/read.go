package acquire

import (
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// How readers share. All readers of a process share one lease of the session's length, and join it
// without asking Redis for the hand-off window after Redis last said that no writer waits. A reader
// whose lease has another length, or is bounded, or whose owner writes, has a lease of its own.

// joinRead follows a reply to l that grants a read lease, or says what becomes of the one that the
// process has. It returns the hold, or else what the call must do next.
func (a *acquisition) joinRead(l *lease.Lease) (*local.Hold, local.Step, error) {
	on, joinUntil := l, l.Sent+int64(a.n.Config.Tenure)
	fresh := true
	switch a.read {
	case wire.ReadGone:
		l.Queued = false
		a.giveUp()
		a.n.Lost(a.join, lockerr.ErrGone)
		return nil, a.table.Next(a.call), nil
	case wire.ReadOther:
		l.Queued = false
		a.giveUp()
		on, fresh = a.join, false
	default:
		if l.Wanted.Load() { // a writer waits
			joinUntil = 0
		}
	}
	step, spare := a.table.GrantedRead(a.call, &on.Lease, fresh, joinUntil, a.n.Clock.Now())
	for step.Do == local.Lose {
		a.n.Lost(lease.Of(step.Lease), lockerr.ErrExpired)
		step, spare = a.table.GrantedRead(a.call, &on.Lease, fresh, joinUntil, a.n.Clock.Now())
	}
	if step.Do != local.Enter {
		return nil, step, nil
	}
	a.lease = nil
	if fresh && spare == nil {
		a.n.took(on, 0)
	}
	if spare != nil {
		a.n.releaseLater(lease.Of(spare)) // another reader was faster
	}
	a.c.Got(step.Hold, !fresh || spare != nil)
	return step.Hold, step, nil
}
