package engine

import (
	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
)

type (
	handle = arbiter.Handle[*lease.Lease]
	waiter = arbiter.Waiter[*lease.Lease]
)

// arbitration is the arbiter of one kind of lock, or of one side of an RWMutex, as far as all
// kinds use it alike. See arbiter.Table for its methods.
type arbitration interface {
	waiter(via *handle, o *arbiter.Owner, passable bool) *waiter
	free(w *waiter)
	enter(w *waiter, wait bool) arbiter.Verdict
	answer(w *waiter) (h *lease.Hold, ask bool)
	quit(w *waiter) *lease.Hold
	grant(w *waiter, l *lease.Lease)

	holdOf(via *handle, o *arbiter.Owner) *lease.Hold
	newest(via *handle, o *arbiter.Owner) *lease.Hold
	exit(via *handle, o *arbiter.Owner) (h *lease.Hold, outcome arbiter.Outcome, lost int)
	giveBack(via *handle, h *lease.Hold) (ended *lease.Hold, outcome arbiter.Outcome, lost int)
	released(l *lease.Lease)
	lose(l *lease.Lease) (holds int)
}

// exclusive is the arbitration of a Mutex or FairMutex.
type exclusive struct{ *arbiter.Table[*lease.Lease] }

func (x exclusive) waiter(via *handle, o *arbiter.Owner, passable bool) *waiter {
	return x.Waiter(via, o, passable)
}
func (x exclusive) free(w *waiter)                             { x.Free(w) }
func (x exclusive) enter(w *waiter, wait bool) arbiter.Verdict { return x.Enter(w, wait) }
func (x exclusive) quit(w *waiter) *lease.Hold                 { return x.Quit(w) }
func (x exclusive) grant(w *waiter, l *lease.Lease)            { x.Grant(w, l, l.Token) }
func (x exclusive) released(l *lease.Lease)                    { x.Released(l.Keys.Name, l) }

func (x exclusive) answer(w *waiter) (h *lease.Hold, ask bool) {
	h = x.Role(w)
	return h, h == nil
}

func (x exclusive) holdOf(via *handle, o *arbiter.Owner) *lease.Hold { return x.HoldOf(via, o) }

func (x exclusive) newest(via *handle, o *arbiter.Owner) *lease.Hold { return x.Newest(via, o) }

func (x exclusive) exit(via *handle, o *arbiter.Owner) (*lease.Hold, arbiter.Outcome, int) {
	h, outcome := x.Exit(via, o)
	return h, outcome, 1
}

func (x exclusive) giveBack(via *handle, h *lease.Hold) (*lease.Hold, arbiter.Outcome, int) {
	ended, outcome := x.Return(via, h)
	return ended, outcome, 1
}

func (x exclusive) lose(l *lease.Lease) int {
	if x.Lose(l.Keys.Name, l) == nil {
		return 0
	}
	return 1
}

// rwSide is the arbitration of one side of an RWMutex.
type rwSide struct {
	*arbiter.RW[*lease.Lease]
	side arbiter.Side
}

func (x rwSide) waiter(via *handle, o *arbiter.Owner, passable bool) *waiter {
	return x.Waiter(via, o, passable)
}
func (x rwSide) free(w *waiter)                             { x.Free(w) }
func (x rwSide) enter(w *waiter, wait bool) arbiter.Verdict { return x.Enter(w, x.side, wait) }
func (x rwSide) answer(w *waiter) (*lease.Hold, bool)       { return x.Answer(w) }
func (x rwSide) quit(w *waiter) *lease.Hold                 { return x.Quit(w) }
func (x rwSide) grant(w *waiter, l *lease.Lease)            { x.GrantWrite(w, l, l.Token) } // readers: see Reader
func (x rwSide) lose(l *lease.Lease) int                    { return x.Lose(l.Keys.Name, l) }

func (x rwSide) holdOf(via *handle, o *arbiter.Owner) *lease.Hold { return x.HoldOf(via, o, x.side) }

func (x rwSide) newest(via *handle, o *arbiter.Owner) *lease.Hold { return x.Newest(via, o, x.side) }

func (x rwSide) exit(via *handle, o *arbiter.Owner) (*lease.Hold, arbiter.Outcome, int) {
	return x.Exit(via, o, x.side)
}

func (x rwSide) giveBack(via *handle, h *lease.Hold) (*lease.Hold, arbiter.Outcome, int) {
	return x.Return(via, h)
}

func (x rwSide) released(l *lease.Lease) {
	if x.side == arbiter.Write { // nobody waits for the release of a read lease
		x.Released(l.Keys.Name, l)
	}
}
