package multilock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lockerr"
)

// hold is what one call has locked: every member once. It is lost with the first of them.
type hold struct {
	g       *Group
	owner   *arbiter.Owner      // of the members' holds
	onEnd   func(arbiter.State) // called by holds
	holds   []engine.Held       // of members of this module
	dones   []<-chan struct{}   // of the others
	stop    chan struct{}       // ends the watches of dones
	watches sync.WaitGroup      // those
	lost    atomic.Bool         // a member is lost
	over    atomic.Bool         // it is not watched any more
}

// locked is a hold as the table knows it.
type locked = arbiter.Hold[*hold]

// watch makes h lost when one of its members is. It reports false if one is lost already, since the call waited
// for another.
func (h *hold) watch() bool {
	h.holds = h.holds[:0]
	for _, m := range h.g.known {
		held := m.HeldBy(h.owner)
		if held == nil || held.State() != arbiter.Live {
			return false
		}
		h.holds = append(h.holds, held)
	}
	h.onEnd = func(s arbiter.State) {
		if s == arbiter.Lost {
			h.lose()
		}
	}
	for _, held := range h.holds {
		held.OnEnd(&h.onEnd)
	}
	for _, l := range h.g.strangers {
		done := l.Done()
		h.dones = append(h.dones, done)
		h.watches.Go(func() { // ended by end
			select {
			case <-done:
				h.lose()
			case <-h.stop:
			}
		})
	}
	return true
}

// end ends what watch began. It reports false if that was ended before.
func (h *hold) end() bool {
	if h.over.Swap(true) {
		return false
	}
	for _, held := range h.holds {
		held.Forget(&h.onEnd)
	}
	close(h.stop)
	h.watches.Wait()
	return true
}

// lose ends h because of a member. It is called with a shard of a member's arbiter locked, so the loss is
// reported a moment later.
func (h *hold) lose() {
	h.lost.Store(true)
	g := h.g
	for _, l := range g.table.Lose(g.handle.Name(), h, h.cause()) {
		time.AfterFunc(0, func() { engine.ReportLoss(g.observer, l, g.name, event.Group, clock{}.Now()) })
	}
}

// cause returns why a member was lost.
func (h *hold) cause() error {
	for _, held := range h.holds {
		if cause := held.Cause(); cause != nil {
			return cause
		}
	}
	return lockerr.ErrMember
}

// unlock unlocks every member: those of one engine in one pipeline for each node, and all concurrently, so that a
// server that does not answer keeps no other member locked.
func (h *hold) unlock(ctx context.Context) error {
	ctx = arbiter.WithOwner(ctx, h.owner)
	batches := batchesOf(h.g.members)
	errs := make([][]error, len(batches))
	var all sync.WaitGroup
	for i, b := range batches {
		all.Go(func() {
			if b.locks != nil {
				errs[i] = engine.UnlockAll(ctx, h.owner, b.locks)
			} else {
				errs[i] = []error{b.members[0].Unlock(ctx)}
			}
		})
	}
	all.Wait()
	return lockerr.Join(slices.Concat(errs...)...)
}

// giveBack unlocks members without waiting for Redis.
func (h *hold) giveBack(ctx context.Context, members []Locker) {
	ctx = arbiter.WithOwner(context.WithoutCancel(ctx), h.owner)
	for _, l := range members {
		if m, ok := l.(engine.Member); ok {
			m.ReleaseInBackground(ctx, h.owner)
		} else {
			_ = l.Unlock(ctx)
		}
	}
}
