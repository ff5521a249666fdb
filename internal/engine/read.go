package engine

import (
	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// How a reader acquires a lock. All readers of an engine share one read lease. They join it without
// asking Redis for one tenure after Redis last said that no writer waits. A reader whose lease has
// another length, or is bounded, brings a lease of its own.

type arbiterStanding = arbiter.Standing[*lease.Lease]

// acquireRead acquires a read lease, or joins the shared one if Redis says that more readers may.
func (a *attempt) acquireRead() (*lease.Hold, error) {
	for {
		var h *lease.Hold
		h, a.st = a.table.Standing(a.w)
		switch {
		case h != nil:
			a.c.Got(h, true)
			return h, nil
		case a.st.Refused:
			return a.letIn(errStartOver)
		case a.st.Confirm && !lease.Certain(a.st.Read, a.e.Clock.Now()):
			a.e.Lost(a.st.Read, lockerr.ErrExpired)
			continue
		}
		l, err := a.contend(nil)
		switch {
		case err != nil || l == nil && !a.c.Wait:
			return a.letIn(err)
		case l == nil:
			continue // the owner has got another hold, with which the call may enter
		}
		if h := a.enterRead(l); h != nil {
			return h, nil
		}
	}
}

// enterRead follows a reply to l that is no refusal. It returns nil if the call must ask again.
func (a *attempt) enterRead(l *lease.Lease) *lease.Hold {
	var h *lease.Hold
	var spare *lease.Lease
	tenure := int64(a.e.Config.Tenure)
	switch a.read {
	case wire.ReadGone:
		a.e.Lost(a.st.Read, lockerr.ErrGone)
		return nil
	case wire.ReadOther:
		h, _ = a.table.GrantRead(a.w, a.st.Read, false, l.Sent+tenure)
	case wire.ReadJoin:
		h, spare = a.table.GrantRead(a.w, l, true, l.Sent+tenure)
	default:
		h, spare = a.table.GrantRead(a.w, l, true, 0)
	}
	a.asking = nil
	fresh := a.read != wire.ReadOther && spare != l
	if fresh {
		a.e.took(l, a.config.MaxHold)
	}
	if spare != nil {
		a.e.releaseLater(spare) // l replaces it, or another reader was faster
	}
	if h != nil {
		a.c.Got(h, !fresh)
	}
	return h
}
