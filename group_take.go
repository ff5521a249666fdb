package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// How a group takes its members.
//
// Two groups cannot deadlock each other: while a call holds a member it waits only for
// one that is later in the order. For any other, and for one that has no place in the
// order, it waits with nothing in its hands, and then tries those before it.

const (
	fastRounds = 3                     // rounds before the members are locked one by one
	roundPause = 20 * time.Microsecond // after the first round that failed; doubled by the following
)

// acquire locks the members, or none.
func (g *Group) acquire(ctx context.Context, o *arbiter.Owner, wait bool) (bool, error) {
	first := -1
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
		if err != nil || taken < 0 || !wait {
			return err == nil && taken < 0, err
		}
		if first >= 0 {
			pause(ctx, jitter(roundPause<<min(round, 9)))
		}
		first = taken
	}
}

// round locks the member first, if that is not -1, and then the others. If one is taken
// and must not be waited for, it gives everything back and returns that one's place.
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

// excluded reports an error if the member i is taken by this very group: by a member of
// the same name in another session, which turns out to lead to the same Redis.
func (g *Group) excluded(ctx context.Context, i int, held []int) error {
	bases, _ := basesOf(g.members[i])
	for _, j := range held {
		others, _ := basesOf(g.members[j])
		if len(bases) != 1 || len(others) != 1 || bases[0].keys.name != others[0].keys.name || bases[0].s == others[0].s {
			continue
		}
		state, err := bases[0].s.Inspect(ctx, bases[0].keys.name)
		if err != nil {
			return nil // it is asked again
		}
		for _, h := range state.Holders {
			if h.Session == others[0].s.id {
				return failed("lock group", "", excludes(bases[0].keys.name))
			}
		}
	}
	return nil
}

// giveBack ends one lock of a member that the group does not get after all.
func giveBack(ctx context.Context, o *arbiter.Owner, l Locker) {
	if m, ok := l.(member); ok {
		m.abandon(o)
		return
	}
	_ = l.Unlock(context.WithoutCancel(ctx))
}

// roundFast is round with one script for all members but first, which it locks before.
func (g *Group) roundFast(ctx context.Context, o *arbiter.Owner, wait bool, first int) (taken int, err error) {
	if first >= 0 {
		if err := g.fast[first].Lock(ctx); err != nil {
			return -1, err
		}
		defer func() {
			if err != nil || taken >= 0 {
				g.fast[first].abandon(o)
			}
		}()
	}
	s := g.fast[0].s
	if !s.begin() {
		return -1, failed("lock group", "", ErrClosed)
	}
	defer s.end()
	b := newFastBatch(s, o, len(g.fast))
	defer b.free()
	for i, m := range g.fast {
		if i == first {
			continue
		}
		if taken, err := b.enter(ctx, i, m, wait && i > first); err != nil || taken >= 0 {
			b.back()
			return taken, err
		}
	}
	taken, err = b.ask(ctx, g.fast[0], wait)
	if taken >= 0 || err != nil {
		b.back()
	}
	return taken, err
}
