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
		var held []Locker
		var taken int
		var err error
		if round < togetherRounds {
			held, taken, err = g.together(ctx, h.owner, c, first)
		} else {
			if round == togetherRounds {
				first = -1
			}
			held, taken, err = g.oneByOne(ctx, h.owner, c, first)
		}
		if err == nil && taken < 0 && h.watch() {
			return true, nil
		}
		for _, l := range held {
			giveBack(ctx, h.owner, l)
		}
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

// together waits for the member first, if that is not -1, and then tries the others. It returns those that it
// holds, and the index of one that is taken, -1 if none is.
func (g *Group) together(ctx context.Context, o *arbiter.Owner, c *engine.Call, first int) (held []Locker, taken int, err error) {
	rest := g.members
	if first >= 0 {
		if _, err := lockOne(ctx, o, g.members[first], c, true); err != nil {
			return nil, -1, err
		}
		held = append(held, g.members[first])
		rest = slices.Delete(slices.Clone(rest), first, first+1)
	}
	taken = -1
	for _, b := range batchesOf(rest) {
		got, errs := b.try(ctx, o, c)
		for i, l := range b.members {
			switch {
			case got[i]:
				held = append(held, l)
			case errs[i] != nil && !passes(ctx, c, errs[i]):
				if err == nil { // of the first one, as if they had been locked one by one
					err = errs[i]
				}
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

// passes reports whether the error of one attempt does not end the call: the member is waited for.
func passes(ctx context.Context, c *engine.Call, err error) bool {
	return c.Wait && ctx.Err() == nil && engine.Transient(err)
}

// batch is a member, or several locks of one engine.
type batch struct {
	members []Locker
	locks   []*engine.Lock // the same; nil: a single member of another type
}

// try makes one attempt to lock each member.
func (b *batch) try(ctx context.Context, o *arbiter.Owner, c *engine.Call) (held []bool, errs []error) {
	if b.locks != nil {
		return engine.TryAll(ctx, o, b.locks, c)
	}
	ok, err := lockOne(ctx, o, b.members[0], c, false)
	return []bool{ok}, []error{err}
}

// batchesOf splits members, so that those of one engine are tried and unlocked together. Members of one key
// are in different batches: the second enters with what the owner got by the first.
func batchesOf(members []Locker) (all []batch) {
	for _, m := range members {
		l, ok := m.(*engine.Lock)
		if !ok || !l.Piped(l.Engine()) {
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

// oneByOne locks the member first, if that is not -1, and then the others in their order. If a member is
// taken that it must not wait for, it returns the index of that.
func (g *Group) oneByOne(ctx context.Context, o *arbiter.Owner, c *engine.Call, first int) (held []Locker, taken int, err error) {
	order := make([]int, 0, len(g.members))
	if first >= 0 {
		order = append(order, first)
	}
	for i := range g.members {
		if i != first {
			order = append(order, i)
		}
	}
	highest := ""
	for n, i := range order {
		l := g.members[i]
		key, _ := orderOf(l)
		waits := c.Wait && (n == 0 || highest != "" && key > highest)
		ok, err := lockOne(ctx, o, l, c, waits)
		if err != nil && (waits || !passes(ctx, c, err)) {
			return held, -1, err
		}
		if !ok || err != nil {
			if err == nil {
				c.Contend()
			}
			return held, i, nil
		}
		held, highest = append(held, l), max(highest, key)
	}
	return held, -1, nil
}

// lockOne locks a member on behalf of a call, or makes one attempt.
func lockOne(ctx context.Context, o *arbiter.Owner, l Locker, c *engine.Call, wait bool) (bool, error) {
	if m, ok := l.(engine.Member); ok {
		return m.Acquire(ctx, o, c.Part(wait))
	}
	s := l.(stranger)
	if !wait {
		return s.TryLock(ctx)
	}
	if ok, err := s.TryLock(ctx); ok || err != nil {
		return ok, err
	}
	c.Contend()
	return true, s.Lock(ctx)
}

// giveBack ends one Lock of a member, of a group that is not acquired.
func giveBack(ctx context.Context, o *arbiter.Owner, l Locker) {
	if m, ok := l.(engine.Member); ok {
		m.ReleaseInBackground(ctx, o)
		return
	}
	_ = l.Unlock(context.WithoutCancel(ctx))
}
