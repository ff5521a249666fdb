package engine

import (
	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
)

type (
	handle  = arbiter.Handle[*lease.Lease]
	waiter  = arbiter.Waiter[*lease.Lease]
	table   = arbiter.Table[*lease.Lease]
	blocked = arbiter.Blocked[*lease.Lease]
)

// arbitration is the arbiter of one kind of lock, or of one side of an RWMutex, as far as all
// kinds use it alike. See arbiter.Table for its methods.
type arbitration struct {
	*table
	side arbiter.Side
}

func (a arbitration) waiter(via *handle, o *arbiter.Owner, passable bool) *waiter {
	return a.Waiter(via, o, passable)
}
func (a arbitration) free(w *waiter)                             { a.Free(w) }
func (a arbitration) enter(w *waiter, wait bool) arbiter.Verdict { return a.Enter(w, a.side, wait) }
func (a arbitration) answer(w *waiter) (h *lease.Hold, ask bool) { return a.Answer(w) }
func (a arbitration) report(w *waiter, err error)                { a.Report(w, err) }
func (a arbitration) blocked(w *waiter) blocked                  { return a.Blocked(w) }
func (a arbitration) quit(w *waiter) *lease.Hold                 { return a.Quit(w) }
func (a arbitration) lose(l *lease.Lease) []*lease.Hold          { return a.Lose(l.Keys.Name, l) }

// grant records a grant to a contender that is no reader, for those see Reader.
func (a arbitration) grant(w *waiter, l *lease.Lease) *lease.Hold {
	h, _ := a.Grant(w, l, l.Token)
	return h
}

func (a arbitration) released(l, next *lease.Lease) (taken bool) {
	return a.ReleasedTo(l.Keys.Name, l, next, int64(l.Length))
}

func (a arbitration) holdOf(via *handle, o *arbiter.Owner) *lease.Hold {
	return a.HoldOf(via, o, a.side)
}

func (a arbitration) newest(via *handle, o *arbiter.Owner) *lease.Hold {
	return a.Newest(via, o, a.side)
}

func (a arbitration) exit(via *handle, o *arbiter.Owner) (h *lease.Hold, outcome arbiter.Outcome, lost []*lease.Hold) {
	return a.Exit(via, o, a.side)
}

func (a arbitration) giveBack(via *handle, h *lease.Hold) (ended *lease.Hold, outcome arbiter.Outcome, lost []*lease.Hold) {
	return a.Return(via, h)
}
