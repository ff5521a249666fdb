package multilock

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
)

// A Group locks its members as one: all or none. It is safe for concurrent use.
type Group struct {
	members []Locker        // in canonical order
	known   []engine.Member // those of this module
	orders  []string        // their keys in it; empty if a member has no place
	fast    []*engine.Mutex // the members, if one script can acquire them all
	err     error           // misuse, returned by every operation
	told    engine.Audience // the observers of the members' sessions
	name    string          // for them: the members' names
	book    arbiter.Book[*hold]
}

// New returns a group of locks. Its first call reports misuse: no member, a nil member, or members
// that exclude each other. A lock that is a member twice is locked twice.
func New(locks ...Locker) *Group {
	g := &Group{members: slices.Clone(locks)}
	g.book.Now, g.book.Ends = groupNow, func(gh *hold) int64 { return gh.ends }
	for _, l := range locks {
		if m, ok := l.(engine.Member); ok {
			g.known = append(g.known, m)
		}
	}
	if g.err = g.check(); g.err != nil {
		return g
	}
	order := func(l Locker) (string, int) {
		if m, ok := l.(engine.Member); ok {
			return m.Order()
		}
		return "", 0
	}
	slices.SortStableFunc(g.members, func(a, b Locker) int {
		ak, ai := order(a)
		bk, bi := order(b)
		return cmp.Or(cmp.Compare(ak, bk), ai-bi)
	})
	for _, l := range g.members {
		key, _ := order(l)
		g.orders = append(g.orders, key)
	}
	g.fast = engine.Batchable(g.members)
	if g.told != nil {
		g.name = g.names()
	}
	return g
}

// A Locker is a lock of any type. One that is no engine.Member is watched through its Done.
type Locker interface {
	Lock(ctx context.Context) error
	TryLock(ctx context.Context) (bool, error)
	Unlock(ctx context.Context) error
	Done() <-chan struct{}
}

// check returns an error if the members can never be locked together.
func (g *Group) check() error {
	if len(g.members) == 0 {
		return fmt.Errorf("%w: a group needs at least one member", lockerr.ErrOption)
	}
	type place struct{ deployment, key string }
	taken := make(map[place]engine.Part)
	for _, l := range g.members {
		if v := reflect.ValueOf(l); l == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%w: a member of the group is nil", lockerr.ErrOption)
		}
	}
	for _, m := range g.known {
		for _, p := range m.Parts() {
			if p.Engine == nil {
				continue // a zero value: its Lock reports that
			}
			at := place{p.Engine.Deployment(), p.Key}
			other, ok := taken[at]
			if ok && (p.Family != other.Family || p.Engine != other.Engine && !(p.Shared && other.Shared)) {
				return errExcludes(p.Key)
			}
			taken[at] = p
			g.told = g.told.With(p.Engine)
		}
	}
	return nil
}

func errExcludes(key string) error {
	return fmt.Errorf("%w: two members of the group exclude each other, both are locks %q", lockerr.ErrOption, key)
}

// usable returns the error of every operation on a zero or invalid group.
func (g *Group) usable(op string) error {
	if g == nil || g.members == nil && g.err == nil {
		return lockerr.New(op, "", lockerr.ErrZero)
	}
	if g.err != nil {
		return lockerr.New(op, "", g.err)
	}
	return nil
}

// Lock locks every member.
func (g *Group) Lock(ctx context.Context) error {
	_, err := g.lock(ctx, "lock group", true)
	return err
}

// TryLock makes one attempt to lock every member.
func (g *Group) TryLock(ctx context.Context) (bool, error) {
	return g.lock(ctx, "try lock group", false)
}

func (g *Group) lock(ctx context.Context, op string, wait bool) (ok bool, err error) {
	if g == nil {
		return false, g.usable(op)
	}
	a := g.told.NewCall(g.name, engine.KindGroup, wait, groupNow())
	switch {
	case g.usable(op) != nil:
		err = g.usable(op)
	case ctx.Err() != nil:
		err = lockerr.Ended(op, "", ctx, nil)
	default:
		ok, err = g.enter(ctx, op, wait, a)
	}
	a.End(ctx, groupNow(), ok, err)
	return ok, err
}

// enter enters again, or acquires the members.
func (g *Group) enter(ctx context.Context, op string, wait bool, a *engine.Acquired) (bool, error) {
	gh := newHold(arbiter.OwnerOf(ctx))
	if gh.Owner != nil && g.reenter(gh.Owner) {
		return true, nil
	}
	if wait && g.WaitsForItself(ctx, gh.as) {
		return false, lockerr.New(op, "", lockerr.ErrDeadlock)
	}
	if err := g.admit(ctx, op, gh.Owner, wait, a); err != nil {
		return false, err
	}
	ok, err := g.acquire(arbiter.WithOwner(ctx, gh.as), gh.as, wait, a)
	if !ok {
		return false, lockerr.Tried(err, !wait)
	}
	g.watch(gh)
	g.book.Add(&gh.Hold)
	if a != nil {
		a.Hold = gh
	}
	return true, nil
}

// Unlock unlocks every member, even if others fail, and joins their errors.
func (g *Group) Unlock(ctx context.Context) error {
	const op = "unlock group"
	if err := g.usable(op); err != nil {
		return err
	}
	o := arbiter.OwnerOf(ctx)
	h, over, parted := g.book.Exit(o)
	if h == nil {
		return lockerr.New(op, "", lockerr.ErrNotHeld)
	}
	lost := o != nil && h.Owner != o // o's own hold was lost; an earlier unlock was counted for that one instead of for h
	if !over {
		if lost {
			return lockerr.New(op, "", lockerr.ErrLost)
		}
		return engine.StateErr(op, "", h.State())
	}
	if !parted {
		lost = !h.End(arbiter.Ended) || lost
	}
	gh := h.Lease
	told := gh.unlocked()
	gh.unwatch()
	err := g.release(arbiter.WithOwner(ctx, gh.as), gh.as)
	g.reportEnd(ctx, gh, told, err)
	if err != nil || !lost {
		return err
	}
	return lockerr.New(op, "", lockerr.ErrLost)
}

// release ends one Lock of every member, with one script or concurrently, so that a server that
// does not answer keeps no other member locked.
func (g *Group) release(ctx context.Context, o *arbiter.Owner) error {
	if g.fast != nil {
		return lockerr.Join(engine.UnlockBatch(ctx, o, g.fast)...)
	}
	errs := make([]error, len(g.members))
	timing.Together(len(errs), func(i int) { errs[i] = g.members[i].Unlock(ctx) })
	return lockerr.Join(errs...)
}

// Done returns a channel that is closed when the latest hold taken through g ends.
func (g *Group) Done() <-chan struct{} {
	if h := g.latest(); h != nil {
		return h.Done()
	}
	return arbiter.Closed
}

// Err returns nil while the latest hold taken through g is held, else ErrLost or ErrNotHeld.
func (g *Group) Err() error {
	const op = "group"
	h := g.latest()
	if h == nil {
		return lockerr.Join(g.usable(op), lockerr.New(op, "", lockerr.ErrNotHeld))
	}
	return engine.StateErr(op, "", h.State())
}
