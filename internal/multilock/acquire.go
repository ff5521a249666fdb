package multilock

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
)

// How a group acquires its members.
//
// Two groups cannot deadlock each other: while a call holds a member it waits only for one that
// is later in the canonical order. For any other member, and for one that has no place in the
// order, it waits while it holds nothing, and then tries the members before that one.

const (
	fastRounds = 3                     // rounds with one script before members are locked one by one
	roundPause = 20 * time.Microsecond // after the first failed round; later ones double it
)

// acquire locks all members, or none.
func (g *Group) acquire(ctx context.Context, o *arbiter.Owner, wait bool, a *engine.Acquired) (bool, error) {
	whole := ctx
	ctx = engine.WithWhole(ctx, a)
	first, start := -1, groupNow()
	for round := 0; ; round++ {
		fast := g.fast != nil && round < fastRounds
		if g.fast != nil && !fast {
			first = -1
		}
		var taken int
		var err error
		if fast {
			taken, err = g.roundFast(ctx, o, wait, first)
		} else {
			taken, err = g.round(ctx, o, wait, first)
		}
		if err == nil && taken < 0 && g.lostOne(o) {
			for _, l := range g.members {
				giveBack(ctx, o, l)
			}
			if !wait {
				return false, nil
			}
			first = -1
			continue
		}
		if err != nil || taken < 0 || !wait {
			return err == nil && taken < 0, err
		}
		a.Contend(whole)
		if first >= 0 {
			timing.Pause(ctx, timing.Jitter(roundPause<<min(round, 9)))
		}
		first = taken
		if ctx.Err() != nil {
			return false, lockerr.Taken("lock", nameOf(g.members[first]), ctx, time.Duration(groupNow()-start))
		}
	}
}

// lostOne reports whether a member was lost while the call waited for another.
func (g *Group) lostOne(o *arbiter.Owner) bool {
	return slices.ContainsFunc(g.known, func(m engine.Member) bool { // of the others, Done tells
		h := m.HeldBy(o)
		return h == nil || h.State() != arbiter.Live
	})
}

// round locks the member first, if that is not -1, and then the others. If a member is taken that
// it must not wait for, it gives everything back and returns the index of that member.
func (g *Group) round(ctx context.Context, o *arbiter.Owner, wait bool, first int) (taken int, err error) {
	var held []int
	taken = -1
	defer func() {
		if err != nil || taken >= 0 {
			for _, i := range held {
				giveBack(ctx, o, g.members[i])
			}
		}
	}()
	highest := ""
	if first >= 0 {
		if err := g.members[first].Lock(ctx); err != nil {
			return -1, err
		}
		held = append(held, first)
		highest = g.orders[first]
	}
	for i, l := range g.members {
		if i == first {
			continue
		}
		if wait && (len(held) == 0 || highest != "" && g.orders[i] > highest) {
			err = l.Lock(ctx)
		} else {
			var ok bool
			if ok, err = l.TryLock(ctx); err == nil && !ok {
				return i, g.excluded(ctx, i, held)
			}
		}
		if err != nil {
			return -1, err
		}
		held = append(held, i)
		highest = max(highest, g.orders[i])
	}
	return -1, nil
}

// excluded returns an error if member i is taken by this very group: by a member of the same
// key in another session, of which no server has told that it leads to the same Redis.
func (g *Group) excluded(ctx context.Context, i int, held []int) error {
	parts := partsOf(g.members[i])
	for _, j := range held {
		others := partsOf(g.members[j])
		if len(parts) != 1 || len(others) != 1 || parts[0].Key != others[0].Key || parts[0].Engine == others[0].Engine {
			continue
		}
		if parts[0].Engine.Sees(ctx, parts[0].Name, others[0].Engine) { // if Redis does not answer, TryLock is called again
			return lockerr.New("lock group", "", errExcludes(parts[0].Key))
		}
	}
	return nil
}

// nameOf returns the name of a member, empty if it has none.
func nameOf(l Locker) string {
	if n, ok := l.(interface{ Name() string }); ok {
		return n.Name()
	}
	return ""
}

func partsOf(l Locker) []engine.Part {
	if m, ok := l.(engine.Member); ok {
		return m.Parts()
	}
	return nil
}

// giveBack ends one Lock of a member, of a group that is not acquired.
func giveBack(ctx context.Context, o *arbiter.Owner, l Locker) {
	if m, ok := l.(engine.Member); ok {
		m.ReleaseInBackground(ctx, o)
		return
	}
	_ = l.Unlock(context.WithoutCancel(ctx))
}

// roundFast is round with one script for all members but first, which it locks before that.
func (g *Group) roundFast(ctx context.Context, o *arbiter.Owner, wait bool, first int) (taken int, err error) {
	if first >= 0 {
		if err := g.fast[first].Lock(ctx); err != nil {
			return -1, err
		}
		defer func() {
			if err != nil || taken >= 0 {
				g.fast[first].ReleaseInBackground(ctx, o)
			}
		}()
	}
	e := g.fast[0].Engine()
	if !e.Begin() {
		return -1, lockerr.New("lock group", "", lockerr.ErrClosed)
	}
	defer e.End()
	b := engine.NewBatch(g.fast, o)
	defer b.Free()
	for i, m := range g.fast {
		if i == first {
			continue
		}
		if taken, err := b.Add(ctx, i, m, wait && i > first); err != nil || taken >= 0 {
			b.Undo(ctx)
			return taken, err
		}
	}
	taken, err = b.Acquire(ctx, wait)
	if taken >= 0 || err != nil {
		b.Undo(ctx)
	}
	return taken, err
}
