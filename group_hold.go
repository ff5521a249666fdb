package relock

import (
	"context"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/arbiter"
)

// groupHold is one hold of a group, from one Lock to its Unlock.
type groupHold struct {
	arbiter.Hold[*groupHold]
	as      *arbiter.Owner      // of the members' holds
	lost    func(arbiter.State) // called at the end of a member's hold
	holds   []heldLock          // those that call it
	stop    chan struct{}       // ends the watches of members of unknown types; nil: there are none
	watches sync.WaitGroup
}

func newGroupHold(o *arbiter.Owner) *groupHold {
	gh := &groupHold{as: o}
	gh.Owner, gh.Lease = o, gh
	if o == nil { // one for all members, so that the unlock finds what this call locked
		gh.as = new(arbiter.Owner)
	}
	return gh
}

// watch has gh lost when a member is.
func (g *Group) watch(gh *groupHold) {
	gh.lost = func(s arbiter.State) {
		if s == arbiter.Lost {
			gh.End(arbiter.Lost)
		}
	}
	gh.holds = make([]heldLock, 0, len(g.members))
	for _, l := range g.members {
		m, ok := l.(member)
		if !ok {
			gh.watchDone(l.Done())
			continue
		}
		h := m.heldBy(gh.as)
		if h == nil { // lost already
			gh.End(arbiter.Lost)
			continue
		}
		h.OnEnd(&gh.lost)
		gh.holds = append(gh.holds, h)
	}
}

func (gh *groupHold) watchDone(done <-chan struct{}) {
	if gh.stop == nil {
		gh.stop = make(chan struct{})
	}
	gh.watches.Go(func() { // ended by unwatch
		select {
		case <-done:
			gh.End(arbiter.Lost)
		case <-gh.stop:
		}
	})
}

func (gh *groupHold) unwatch() {
	for _, h := range gh.holds {
		h.Forget(&gh.lost)
	}
	if gh.stop != nil {
		close(gh.stop)
		gh.watches.Wait()
	}
}

// afterLoss has an anonymous call wait while an anonymous hold of this value was lost
// and not yet unlocked, as Mutex does.
func (g *Group) afterLoss(ctx context.Context, op string, o *arbiter.Owner, wait bool) (bool, error) {
	for {
		ok, changed := g.book.Admits(o)
		if ok || !wait {
			return ok, nil
		}
		sessions := g.sessions()
		switch {
		case ctx.Err() != nil:
			return false, ctxFailed(op, "", ctx, nil)
		case slices.ContainsFunc(sessions, (*Session).closed):
			return false, failed(op, "", ErrClosed)
		}
		await(ctx, changed, sessions)
	}
}

// again counts up the live hold of an owner, if it has one.
func (g *Group) again(o *arbiter.Owner) bool {
	g.settle(o)
	return g.book.Again(o)
}

// last returns the latest hold, after a look whether it is late: a process that was
// frozen is told at once.
func (g *Group) last() *groupHold {
	if g == nil {
		return nil
	}
	h := g.book.Latest()
	if h == nil {
		return nil
	}
	g.settle(h.Lease.as)
	return h.Lease
}

// What a group is as a member of another one.

func (g *Group) settle(o *arbiter.Owner) {
	for _, l := range g.members {
		if m, ok := l.(member); ok {
			m.settle(o)
		}
	}
}

func (g *Group) heldBy(o *arbiter.Owner) heldLock {
	if h := g.book.HoldOf(o); h != nil {
		return h
	}
	return nil
}

func (g *Group) abandon(o *arbiter.Owner) {
	h, over := g.book.Exit(o)
	if !over {
		return
	}
	h.End(arbiter.Ended)
	h.Lease.unwatch()
	o = h.Lease.as
	ctx := asOwner(context.Background(), o)
	for _, l := range g.members {
		giveBack(ctx, o, l)
	}
}
