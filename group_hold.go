package relock

import (
	"context"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/arbiter"
)

// groupHold is one hold of a group, from one Lock to its Unlock.
type groupHold struct {
	arbiter.Hold[struct{}]
	anonymous bool
	more      int                 // locked again that often by the owner; guarded by Group.mu
	lost      func(arbiter.State) // called at the end of a member's hold
	holds     []heldLock          // those that call it
	stop      chan struct{}       // ends the watches of members of unknown types; nil: there are none
	watches   sync.WaitGroup
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
		h := m.heldBy(gh.Owner)
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

// afterLoss waits while an anonymous hold of this value was lost and not yet unlocked,
// as Mutex does.
func (g *Group) afterLoss(ctx context.Context, op string, wait bool) (bool, error) {
	for {
		g.mu.Lock()
		blocked := slices.ContainsFunc(g.open, func(h *groupHold) bool {
			return h.anonymous && h.State() == arbiter.Lost
		})
		changed := g.changed
		g.mu.Unlock()
		if !blocked || !wait {
			return !blocked, nil
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
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.liveLocked(o)
	if h != nil {
		h.more++
		g.latest = h
	}
	return h != nil
}

func (g *Group) liveLocked(o *arbiter.Owner) *groupHold {
	for _, h := range slices.Backward(g.open) {
		if h.Owner == o && h.State() == arbiter.Live {
			return h
		}
	}
	return nil
}

// take finds the hold that an unlock is for, by the rules of Mutex, and reports whether
// it was the last one; then it removes it.
func (g *Group) take(o *arbiter.Owner) (gh *groupHold, over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := -1
	for i, h := range g.open {
		lost := h.State() == arbiter.Lost
		if o == nil && lost {
			at = i
			break
		}
		if o == nil || !h.anonymous && h.Owner == o {
			at = i
		}
	}
	if at < 0 {
		return nil, false
	}
	gh = g.open[at]
	if gh.more > 0 {
		gh.more--
		return gh, false
	}
	g.open = slices.Delete(g.open, at, at+1)
	close(g.changed)
	g.changed = make(chan struct{})
	return gh, true
}

// last returns the latest hold, after a look whether it is late: a process that was
// frozen is told at once.
func (g *Group) last() *groupHold {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	h := g.latest
	g.mu.Unlock()
	if h != nil {
		g.settle(h.Owner)
	}
	return h
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
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.liveLocked(o); h != nil {
		return h
	}
	return nil
}

func (g *Group) abandon(o *arbiter.Owner) {
	gh, over := g.take(o)
	if !over {
		return
	}
	gh.End(arbiter.Ended)
	gh.unwatch()
	ctx := asOwner(context.Background(), o)
	for _, l := range g.members {
		giveBack(ctx, o, l)
	}
}
