package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/arbiter"
)

// A Group locks several locks as one: all or nothing. Its members may be of any type
// and any session, also groups themselves.
//
// Values come from [NewGroup]; methods of the zero Group return an error. A Group must
// not be copied after first use, and is safe for concurrent use. It is a [Locker]: the
// hold is that of all members, Done closes when the first of them is lost, and it is
// re-entrant where its members are.
//
// Members are locked in an order that depends on their names only, so groups that share
// members cannot deadlock each other, in whatever order they list them. Where names do
// not decide, among members of different deployments with one name or of types that
// this package does not know, the group does not wait for one while it holds another:
// it gives all back and starts with the one that was taken.
//
// Mutexes of one session whose keys share a slot (any keys, outside a cluster) are
// taken by one script in one round trip, and released by another.
type Group struct {
	members []Locker // in canonical order
	orders  []string // the names it goes by; empty if unknown
	fast    []*Mutex // the members, if one script can take them all
	err     error
	book    arbiter.Book[*groupHold]
}

var _ Locker = (*Group)(nil)

// NewGroup returns a group of locks. It sends nothing and cannot fail: no member, a nil
// member, or members that exclude each other, are reported by the first call that would
// find out. A lock that is a member twice is locked twice.
func NewGroup(locks ...Locker) *Group {
	g := &Group{members: slices.Clone(locks)}
	if g.err = g.check(); g.err != nil {
		return g
	}
	order := func(l Locker) (string, int) {
		if m, ok := l.(member); ok {
			return m.order()
		}
		return "", 0
	}
	slices.SortStableFunc(g.members, func(a, b Locker) int {
		an, ai := order(a)
		bn, bi := order(b)
		return cmp.Or(cmp.Compare(an, bn), ai-bi)
	})
	for _, l := range g.members {
		name, _ := order(l)
		g.orders = append(g.orders, name)
	}
	g.fast = g.fastPath()
	return g
}

// check finds what can never work.
func (g *Group) check() error {
	if len(g.members) == 0 {
		return fmt.Errorf("%w: a group needs at least one member", ErrOption)
	}
	type place struct {
		s    *Session
		name string
	}
	families := make(map[place]string) // locks of one name in a session must be of one family
	for _, l := range g.members {
		if v := reflect.ValueOf(l); l == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%w: a member of the group is nil", ErrOption)
		}
		bases, family := basesOf(l)
		for _, b := range bases {
			at := place{b.s, b.keys.name}
			if other, ok := families[at]; ok && other != family {
				return excludes(at.name)
			}
			families[at] = family
		}
	}
	return nil
}

func excludes(name string) error {
	return fmt.Errorf("%w: two members of the group exclude each other, both are locks %q", ErrOption, name)
}

// basesOf returns the locks that a member takes in sessions, and what all locks are
// that one owner may have beside it under the same name.
func basesOf(l Locker) (bases []*lockBase, family string) {
	switch m := l.(type) {
	case *Mutex:
		return []*lockBase{&m.lockBase}, "mutex"
	case *FairMutex:
		return []*lockBase{&m.lockBase}, "fair"
	case *RWMutex:
		return []*lockBase{&m.lockBase}, "rw"
	case *rlocker:
		return []*lockBase{&m.lockBase}, "rw"
	case *Redlock:
		for _, n := range m.nodes {
			bases = append(bases, &n.lockBase)
		}
		return bases, "redlock " + m.h.Name()
	}
	return nil, ""
}

func (g *Group) usable(op string) error {
	if g == nil || g.members == nil && g.err == nil {
		return errZero
	}
	if g.err != nil {
		return failed(op, "", g.err)
	}
	return nil
}

// Lock locks every member; see [Locker]. It blocks until it has them all. After an
// error it has none of them.
func (g *Group) Lock(ctx context.Context) error {
	_, err := g.lock(ctx, "lock group", true)
	return err
}

// TryLock locks every member if none is taken; see [Locker].
func (g *Group) TryLock(ctx context.Context) (bool, error) {
	return g.lock(ctx, "try to lock group", false)
}

func (g *Group) lock(ctx context.Context, op string, wait bool) (bool, error) {
	if err := g.usable(op); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, ctxFailed(op, "", ctx, nil)
	}
	gh := newGroupHold(ownerOf(ctx))
	if gh.Owner != nil && g.again(gh.Owner) {
		return true, nil
	}
	if ok, err := g.afterLoss(ctx, op, gh.Owner, wait); !ok {
		return false, err
	}
	ok, err := g.acquire(asOwner(ctx, gh.as), gh.as, wait)
	if !ok {
		return false, err
	}
	g.watch(gh)
	g.book.Add(&gh.Hold)
	return true, nil
}

// Unlock unlocks every member, whatever happens to the others, and returns their errors
// joined; see [Locker].
func (g *Group) Unlock(ctx context.Context) error {
	const op = "unlock group"
	if err := g.usable(op); err != nil {
		return err
	}
	o := ownerOf(ctx)
	h, over := g.book.Exit(o)
	if h == nil {
		return failed(op, "", ErrNotHeld)
	}
	lost := o != nil && h.Owner != o // o's hold; h is the one whose unlock was taken for o's
	if !over {
		if lost {
			return failed(op, "", ErrLost)
		}
		return stateErr(op, "", h.State())
	}
	lost = !h.End(arbiter.Ended) || lost
	gh := h.Lease
	gh.unwatch()
	if err := g.release(asOwner(ctx, gh.as), gh.as); err != nil || !lost {
		return err
	}
	return failed(op, "", ErrLost)
}

// release ends one lock of every member: with one script, or all at the same time, so
// that a server that does not answer keeps none of the others locked.
func (g *Group) release(ctx context.Context, o *arbiter.Owner) error {
	if g.fast != nil {
		return errors.Join(g.unlockFast(ctx, o)...)
	}
	errs := make([]error, len(g.members))
	var wg sync.WaitGroup
	for i, l := range g.members[1:] {
		wg.Go(func() { errs[i+1] = l.Unlock(ctx) })
	}
	errs[0] = g.members[0].Unlock(ctx)
	wg.Wait()
	return errors.Join(errs...)
}

// Done returns a channel that is closed when the latest hold taken through g ends, or
// loses its first member; see [Locker].
func (g *Group) Done() <-chan struct{} {
	if h := g.last(); h != nil {
		return h.Done()
	}
	return arbiter.Closed
}

// Err tells whether the latest hold taken through g is held whole; see [Locker].
func (g *Group) Err() error {
	const op = "state of group"
	h := g.last()
	if h == nil {
		return errors.Join(g.usable(op), failed(op, "", ErrNotHeld))
	}
	return stateErr(op, "", h.State())
}
