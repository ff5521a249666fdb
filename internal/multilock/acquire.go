package multilock

import (
	"cmp"
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
// It tries all of them together, in pipelines. If one is taken it gives the others back, waits for that one
// while it holds nothing, and tries the rest again. If others are always faster, it locks the members one
// after the other, in the canonical order. Two groups cannot deadlock each other: while a call
// holds a member it waits only for one that is later in that order.

const (
	togetherRounds = 3                     // before members are locked one by one
	roundPause     = 20 * time.Microsecond // after the first failed round; later ones double it
)

// acquire locks all members for h, or none.
func (g *Group) acquire(ctx context.Context, h *hold, c *engine.Call) (bool, error) {
	first := -1
	for round := 0; ; round++ {
		if round == togetherRounds {
			first = -1
		}
		held, taken, err := g.try(ctx, h.owner, c, g.plan(first, round < togetherRounds))
		if err == nil && taken < 0 && h.watch() {
			return true, nil
		}
		h.giveBack(ctx, held)
		if err != nil || !c.Wait {
			return false, err
		}
		if first >= 0 {
			timing.Pause(ctx, timing.Jitter(roundPause<<min(round, 9)))
		}
		if first = taken; ctx.Err() != nil {
			return false, lockerr.Taken(c.Op, nameOf(g.members[max(first, 0)]), ctx, c.Waited())
		}
	}
}

// batch is a member, or several locks of one engine.
type batch struct {
	members []Locker
	locks   []*engine.Lock // the same; nil: a single member, perhaps of another type
	wait    bool           // for the member, if the call waits
}

// plan returns what a round locks, in that order: the member first, if that is not -1, and then the others,
// together or one by one.
func (g *Group) plan(first int, together bool) (all []batch) {
	order := g.members
	if first >= 0 {
		order = slices.Concat(order[first:first+1], order[:first], order[first+1:])
	}
	highest := ""
	for i, l := range order {
		if together && (i > 0 || first < 0) {
			return append(all, batchesOf(order[i:])...)
		}
		key, _ := orderOf(l)
		all = append(all, batch{members: order[i : i+1], wait: i == 0 || highest != "" && key > highest})
		highest = max(highest, key)
	}
	return all
}

// batchesOf splits members, so that those of one engine are tried and unlocked together. Members of one key
// are in different batches: the second enters with what the owner got by the first.
func batchesOf(members []Locker) (all []batch) {
	for _, m := range members {
		l, ok := m.(*engine.Lock)
		if !ok || !l.Piped() {
			all = append(all, batch{members: []Locker{m}})
			continue
		}
		i := slices.IndexFunc(all, func(b batch) bool {
			return b.locks != nil && b.locks[0].Engine() == l.Engine() && !slices.ContainsFunc(b.locks, l.SameKey)
		})
		if i < 0 {
			i, all = len(all), append(all, batch{})
		}
		all[i].locks, all[i].members = append(all[i].locks, l), append(all[i].members, l)
	}
	return all
}

// try locks one batch after the other, up to one with a member that is taken. It returns the members that it
// holds, and the index of the one that is taken, -1 if none is.
func (g *Group) try(ctx context.Context, o *arbiter.Owner, c *engine.Call, plan []batch) (held []Locker, taken int, err error) {
	taken = -1
	for _, b := range plan {
		wait := b.wait && c.Wait
		passes := c.Wait && !wait // trouble ends no Lock: it waits for the member
		got, errs := b.try(ctx, o, c, wait)
		for i, l := range b.members {
			switch {
			case got[i]:
				held = append(held, l)
			case errs[i] != nil && !(passes && ctx.Err() == nil && engine.Transient(errs[i])):
				err = cmp.Or(err, errs[i]) // of the first one, as if they had been locked one by one
			case taken < 0:
				if taken = slices.Index(g.members, l); errs[i] == nil {
					c.Contend()
				}
			}
		}
		if err != nil || taken >= 0 {
			break
		}
	}
	return held, taken, err
}

// try makes one attempt to lock each member, or waits for the only one.
func (b *batch) try(ctx context.Context, o *arbiter.Owner, c *engine.Call, wait bool) (held []bool, errs []error) {
	if b.locks != nil {
		return engine.TryAll(ctx, o, b.locks, c)
	}
	if m, known := b.members[0].(engine.Member); known {
		ok, err := m.Acquire(ctx, o, c.Part(wait))
		return []bool{ok && err == nil}, []error{err}
	}
	s := b.members[0].(stranger)
	ok, err := s.TryLock(ctx)
	if wait && !ok && err == nil {
		c.Contend()
		err = s.Lock(ctx)
		ok = err == nil
	}
	return []bool{ok}, []error{err}
}
