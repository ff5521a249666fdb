package multilock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lockerr"
)

// hold is one hold of a group, from one Lock to its Unlock.
type hold struct {
	arbiter.Hold[*hold]
	g        *Group
	owner    *arbiter.Owner // of the members' holds
	ofHandle bool           // taken without an owner
	count    int            // locks minus unlocks
	onEnd    func(arbiter.State)
	holds    []engine.Held  // that call onEnd
	stop     chan struct{}  // ends the watches of members of unknown types; nil: there are none
	watches  sync.WaitGroup // those
}

// watch makes h lost when one of its members is, and records it. It reports false if one is lost already,
// since the call waited for another.
func (h *hold) watch() bool {
	h.onEnd = func(s arbiter.State) {
		if s == arbiter.Lost {
			h.lose()
		}
	}
	h.holds = h.holds[:0]
	for _, m := range h.g.known {
		held := m.HeldBy(h.owner)
		if held == nil || held.State() != arbiter.Live {
			return false
		}
		h.holds = append(h.holds, held)
	}
	for _, held := range h.holds {
		held.OnEnd(&h.onEnd)
	}
	for _, l := range h.g.members {
		if _, known := l.(engine.Member); !known {
			h.watchDone(l.(stranger).Done())
		}
	}
	g := h.g
	g.mu.Lock()
	defer g.mu.Unlock()
	h.count, g.latest = 1, h
	g.open = append(g.open, h)
	return true
}

// watchDone makes h lost when done is closed.
func (h *hold) watchDone(done <-chan struct{}) {
	if h.stop == nil {
		h.stop = make(chan struct{})
	}
	h.watches.Go(func() { // ended by unwatch
		select {
		case <-done:
			h.lose()
		case <-h.stop:
		}
	})
}

// unwatch ends what watch and watchDone began.
func (h *hold) unwatch() {
	for _, held := range h.holds {
		held.Forget(&h.onEnd)
	}
	if h.stop != nil {
		close(h.stop)
		h.watches.Wait()
	}
}

// errMember is the cause of a loss by a member that does not tell one.
var errMember = errors.New("a member of the group was lost")

// memberLoss returns why a member was lost, nil if none says so.
func (h *hold) memberLoss() error {
	for _, held := range h.holds {
		if cause := held.Cause(); cause != nil {
			return cause
		}
	}
	return nil
}

// lose ends h because of a member. It is called with a shard of a member's arbiter locked, so the loss is
// reported a moment later, or by Unlock.
func (h *hold) lose() {
	if h.End(arbiter.Lost, cmp.Or(h.memberLoss(), errMember)) && h.g.observer != nil {
		time.AfterFunc(0, func() { engine.ReportLoss(h.g.observer, h, h.g.name, event.Group, clock{}.Now()) })
	}
}

// end ends h by its last unlock, which is to be reported, and reports whether it was held until then.
func (h *hold) end() (held bool, told *engine.Unlocking) {
	held = h.End(arbiter.Ended, nil)
	told = engine.Unlock(h.g.observer, h, true, h.g.name, event.Group, clock{})
	h.unwatch()
	return held, told
}

// reenter locks the live hold of o once more, if o has one.
func (g *Group) reenter(o *arbiter.Owner) bool {
	g.expire(o)
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.openLocked(o)
	if o == nil || h == nil || h.State() != arbiter.Live {
		return false
	}
	h.count++
	g.latest = h
	return true
}

// openLocked returns the hold of o that awaits its unlock. Without an owner that is the one that an Unlock ends:
// what the handle itself has lost, else the one that was taken last, or, of those taken without an owner, who may be
// readers with leases that end at different times, the first.
func (g *Group) openLocked(o *arbiter.Owner) *hold {
	i := slices.IndexFunc(g.open, func(h *hold) bool {
		return h.owner == o || o == nil && h.ofHandle && h.State() == arbiter.Lost
	})
	if n := len(g.open); i < 0 && o == nil && n > 0 && !g.open[n-1].ofHandle {
		i = n - 1
	}
	if i < 0 && o == nil {
		i = slices.IndexFunc(g.open, func(h *hold) bool { return h.ofHandle })
	}
	if i < 0 {
		return nil
	}
	return g.open[i]
}

// admit lets a call begin, unless a lost hold must be unlocked first. Without an owner it waits for
// that if it waits at all.
func (g *Group) admit(ctx context.Context, o *arbiter.Owner, c *engine.Call) error {
	for {
		g.mu.Lock()
		lost := slices.ContainsFunc(g.open, func(h *hold) bool {
			return h.State() == arbiter.Lost && (o == nil && h.ofHandle || h.owner == o)
		})
		changed := g.changed
		g.mu.Unlock()
		engines := g.Engines()
		switch {
		case !lost:
			return nil
		case o != nil || !c.Wait:
			return lockerr.New(c.Op, "", lockerr.ErrUnlockFirst)
		case ctx.Err() != nil:
			return lockerr.Ended(c.Op, "", ctx, lockerr.ErrUnlockFirst)
		case slices.ContainsFunc(engines, (*engine.Engine).Closed):
			return lockerr.New(c.Op, "", lockerr.ErrClosed)
		}
		c.Contend()
		engine.Await(ctx, changed, engines)
	}
}

// exit counts one unlock of o, or of the handle, and reports whether it was the last one of the hold.
func (g *Group) exit(o *arbiter.Owner) (h *hold, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h = g.openLocked(o); h == nil {
		return nil, false
	}
	if h.count--; h.count > 0 {
		return h, false
	}
	g.open = slices.DeleteFunc(g.open, func(other *hold) bool { return other == h })
	close(g.changed)
	g.changed = make(chan struct{})
	return h, true
}

// last returns the latest hold, nil if there was none. If its deadline has passed it is lost now: a process
// that was frozen may look before its watchdog does.
func (g *Group) last() *hold {
	g.mu.Lock()
	h := g.latest
	g.mu.Unlock()
	if h != nil {
		g.expire(h.owner)
	}
	return h
}

// expire loses the members' holds of o whose deadline has passed.
func (g *Group) expire(o *arbiter.Owner) {
	for _, m := range g.known {
		if o != nil {
			m.HeldBy(o)
		}
	}
}

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (g *Group) HeldBy(o *arbiter.Owner) engine.Held {
	g.expire(o)
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.openLocked(o); h != nil && o != nil {
		return h
	}
	return nil
}

// DeadlineOf returns the first of the members' deadlines, if h is live and all are known.
func (g *Group) DeadlineOf(h engine.Held) (first time.Time, ok bool) {
	holds := h.(*hold).holds
	if h.State() != arbiter.Live || len(holds) < len(g.members) {
		return first, false
	}
	for i, m := range g.known {
		at, ok := m.DeadlineOf(holds[i])
		if !ok {
			return time.Time{}, false
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first, true
}

// Taken returns the parts with a key that members hold. After a loss those of other members are
// held until h is unlocked.
func (g *Group) Taken(h engine.Held, key string) (parts []engine.Part) {
	if h.State() == arbiter.Ended {
		return nil
	}
	for i, m := range g.known {
		parts = append(parts, m.Taken(h.(*hold).holds[i], key)...)
	}
	return parts
}
