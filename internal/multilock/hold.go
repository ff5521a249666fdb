package multilock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
)

// hold is one hold of a group, from one Lock to its Unlock.
type hold struct {
	arbiter.Hold[*hold]
	as      *arbiter.Owner      // owner of the members' holds
	ends    int64               // by groupNow: it ends then at the latest
	onEnd   func(arbiter.State) // called at the end of a member's hold
	onLoss  func(cause error)   // called when its loss is reported; nil if there is nobody to tell
	holds   []engine.Held       // that call onEnd
	stop    chan struct{}       // ends the watches of members of unknown types; nil: there are none
	watches sync.WaitGroup      // those
}

func newHold(o *arbiter.Owner) *hold {
	gh := &hold{as: o}
	gh.Owner, gh.Lease = o, gh
	if o == nil { // one for all members, so that Unlock finds what this call locked
		gh.as = new(arbiter.Owner)
	}
	return gh
}

// A group has a clock of its own, because its members may be of several engines. Its book orders
// by it the anonymous holds that are live at the same time, which are those of readers.
var groupEpoch = time.Now()

func groupNow() int64 { return int64(time.Since(groupEpoch)) }

// watch makes gh lost when one of its members is.
func (g *Group) watch(gh *hold) {
	if gh.Owner == nil {
		gh.ends = groupNow() + int64(g.Remaining(gh.as))
	}
	gh.onEnd = func(s arbiter.State) {
		if s == arbiter.Lost {
			gh.End(arbiter.Lost)
		}
	}
	if g.told != nil {
		gh.onLoss = func(cause error) { g.reportLoss(gh, cause) }
	}
	gh.holds = make([]engine.Held, 0, len(g.members))
	for _, l := range g.members {
		m, ok := l.(engine.Member)
		if !ok {
			g.watchDone(gh, l.Done())
			continue
		}
		h := m.HeldBy(gh.as)
		if h == nil { // lost already
			g.lose(gh)
			continue
		}
		h.OnEnd(&gh.onEnd)
		if gh.onLoss != nil {
			each(h, func(h engine.Held) { h.AfterLoss(&gh.onLoss) })
		}
		gh.holds = append(gh.holds, h)
	}
}

// watchDone makes gh lost when done is closed.
func (g *Group) watchDone(gh *hold, done <-chan struct{}) {
	if gh.stop == nil {
		gh.stop = make(chan struct{})
	}
	gh.watches.Go(func() { // ended by unwatch
		select {
		case <-done:
			g.lose(gh)
		case <-gh.stop:
		}
	})
}

// unwatch ends what watch and watchDone began.
func (gh *hold) unwatch() {
	for _, h := range gh.holds {
		h.Forget(&gh.onEnd)
		if gh.onLoss != nil {
			each(h, func(h engine.Held) { h.ForgetLoss(&gh.onLoss) })
		}
	}
	if gh.stop != nil {
		close(gh.stop)
		gh.watches.Wait()
	}
}

// admit lets a call begin, unless a lost hold must be unlocked first. Like a Mutex, it makes an
// anonymous call wait for that if it waits at all.
func (g *Group) admit(ctx context.Context, op string, o *arbiter.Owner, wait bool, a *engine.Acquired) error {
	for {
		ok, changed := g.book.Admits(o)
		if ok {
			return nil
		}
		engines := g.Engines()
		switch {
		case o != nil || !wait:
			return lockerr.New(op, "", lockerr.ErrUnlockFirst)
		case ctx.Err() != nil:
			return lockerr.Ended(op, "", ctx, lockerr.ErrUnlockFirst)
		case slices.ContainsFunc(engines, (*engine.Engine).Closed):
			return lockerr.New(op, "", lockerr.ErrClosed)
		}
		a.Contend(ctx)
		engine.Await(ctx, changed, engines)
	}
}

// reenter enters the live hold of o again, if it has one.
func (g *Group) reenter(o *arbiter.Owner) bool {
	g.ExpireIfDue(o)
	return g.book.Again(o)
}

// latest returns the latest hold, nil if there was none. If its deadline has passed it is lost
// now: a process that was frozen may look before its watchdog does.
func (g *Group) latest() *hold {
	if g == nil {
		return nil
	}
	h := g.book.Latest()
	if h == nil {
		return nil
	}
	g.ExpireIfDue(h.Lease.as)
	return h.Lease
}

// The following make a group a Member of another one.

// ExpireIfDue loses the members' holds of o whose deadline has passed.
func (g *Group) ExpireIfDue(o *arbiter.Owner) {
	for _, m := range g.known {
		m.ExpireIfDue(o)
	}
}

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (g *Group) HeldBy(o *arbiter.Owner) engine.Held {
	if h := g.book.Newest(o); h != nil {
		return h
	}
	return nil
}

// DeadlineOf returns the first of the members' deadlines, if h is live and all are known.
func (g *Group) DeadlineOf(h engine.Held) (first time.Time, ok bool) {
	as := h.(*arbiter.Hold[*hold]).Lease.as
	if h.State() != arbiter.Live || len(g.known) < len(g.members) {
		return first, false
	}
	for _, m := range g.known {
		held := m.HeldBy(as)
		if held == nil {
			return time.Time{}, false
		}
		at, ok := m.DeadlineOf(held)
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
	as := h.(*arbiter.Hold[*hold]).Lease.as
	if h.State() == arbiter.Ended {
		return nil
	}
	for _, m := range g.known {
		if held := m.HeldBy(as); held != nil {
			parts = append(parts, m.Taken(held, key)...)
		}
	}
	return parts
}

// WaitsForItself reports whether Lock by o would wait for a Do that ctx comes from, as one of the
// members would.
func (g *Group) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	return engine.ScopeOf(ctx) != nil && slices.ContainsFunc(g.known, func(m engine.Member) bool {
		return m.WaitsForItself(ctx, o)
	})
}

// ReleaseInBackground ends one Lock of o without waiting for Redis.
func (g *Group) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	h, over, parted := g.book.Exit(o)
	if !over {
		return
	}
	if !parted {
		h.End(arbiter.Ended)
	}
	told := h.Lease.unlocked()
	h.Lease.unwatch()
	o = h.Lease.as
	as := arbiter.WithOwner(ctx, o)
	for _, l := range g.members {
		giveBack(as, o, l)
	}
	g.reportEnd(ctx, h.Lease, told, nil)
}

// Order returns no place: members have several names.
func (g *Group) Order() (string, int) { return "", 0 }

// Engines returns those of all members.
func (g *Group) Engines() (all []*engine.Engine) {
	for _, m := range g.known {
		all = append(all, m.Engines()...)
	}
	return all
}

// Remaining returns that of the member whose hold ends first.
func (g *Group) Remaining(o *arbiter.Owner) time.Duration {
	least := time.Duration(lease.Forever)
	for _, m := range g.known {
		least = min(least, m.Remaining(o))
	}
	return least
}

// Parts returns those of all members.
func (g *Group) Parts() (all []engine.Part) {
	for _, m := range g.known {
		all = append(all, m.Parts()...)
	}
	return all
}
