package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lockerr"
	"golang.org/x/sync/errgroup"
)

// A Group locks its members as one: all or none. It is safe for concurrent use.
type Group struct {
	members  []Locker        // in canonical order
	known    []engine.Member // those of this module
	err      error           // misuse, returned by every operation
	observer event.Observer  // those of the members' sessions
	name     string          // for observers: the members' names

	mu      sync.Mutex    // protects the following, and hold.count
	latest  *hold         // the last one taken
	open    []*hold       // those that await an unlock, oldest first
	changed chan struct{} // closed when one of them is over
}

// A Locker is a lock of any type. One that is no engine.Member is a stranger.
type Locker interface {
	Unlock(ctx context.Context) error
}

// stranger is a lock of a type that this module does not know.
type stranger interface {
	Lock(ctx context.Context) error
	TryLock(ctx context.Context) (bool, error)
	Done() <-chan struct{}
}

// New returns a group of locks. Its first call reports misuse: no member, a nil member, or members
// that exclude each other. A lock that is a member twice is locked twice.
func New(locks ...Locker) *Group {
	g := &Group{members: slices.Clone(locks), changed: make(chan struct{})}
	if len(locks) == 0 {
		g.err = fmt.Errorf("%w: a group needs at least one member", lockerr.ErrOption)
	}
	for _, l := range locks {
		if v := reflect.ValueOf(l); l == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			g.err = fmt.Errorf("%w: a member of the group is nil", lockerr.ErrOption)
			return g
		}
	}
	slices.SortStableFunc(g.members, func(a, b Locker) int {
		ak, ai := orderOf(a)
		bk, bi := orderOf(b)
		return cmp.Or(cmp.Compare(ak, bk), ai-bi)
	})
	var names []string
	for _, l := range g.members {
		if m, ok := l.(engine.Member); ok {
			g.known = append(g.known, m)
		}
		names = append(names, nameOf(l))
	}
	g.name = strings.Join(names, ", ")
	g.checkParts()
	return g
}

// checkParts finds members that can never be locked together, and the members' observers.
func (g *Group) checkParts() {
	type place struct{ deployment, key string }
	taken := make(map[place]engine.Part)
	var observers event.All
	for _, p := range g.Parts() {
		at := place{p.Engine.Deployment(), p.Key}
		other, ok := taken[at]
		if ok && (p.Family != other.Family || p.Engine != other.Engine && !(p.Shared && other.Shared)) {
			g.err = fmt.Errorf("%w: two members of the group exclude each other, both are locks %q", lockerr.ErrOption, p.Key)
		}
		taken[at] = p
		if o := p.Engine.Config.Observer; o != nil && !slices.Contains(observers, o) {
			observers = append(observers, o)
		}
	}
	if len(observers) > 0 {
		g.observer = observers
	}
}

// orderOf returns the place of a member in the canonical order; an empty key is none.
func orderOf(l Locker) (key string, rank int) {
	if m, ok := l.(engine.Member); ok {
		return m.Order()
	}
	return "", 0
}

// nameOf returns the name of a member, or its type if it has none.
func nameOf(l Locker) string {
	if n, ok := l.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", l)
}

// Lock locks every member.
func (g *Group) Lock(ctx context.Context) error {
	_, err := g.lock(ctx, true)
	return err
}

// TryLock makes one attempt to lock every member.
func (g *Group) TryLock(ctx context.Context) (bool, error) { return g.lock(ctx, false) }

func (g *Group) lock(ctx context.Context, wait bool) (bool, error) {
	c := engine.NewCall(ctx, g.observer, clock{}, g.name, event.Group, "lock group", wait)
	ok, err := g.Acquire(ctx, arbiter.OwnerOf(ctx), &c)
	c.End(ok, err)
	return ok, err
}

// clock is the clock of groups, whose members may be of several engines.
type clock struct{}

var epoch = time.Now()

func (clock) Now() int64 { return int64(time.Since(epoch)) }

// Acquire locks every member for o, who is in ctx, or for this call alone if o is nil.
func (g *Group) Acquire(ctx context.Context, o *arbiter.Owner, c *engine.Call) (bool, error) {
	h := &hold{g: g, owner: o}
	if o == nil { // one for all members, so that Unlock finds what this call locked
		h.owner, h.ofHandle = new(arbiter.Owner), true
	}
	switch {
	case g.err != nil:
		return false, lockerr.New(c.Op, "", g.err)
	case ctx.Err() != nil:
		return false, lockerr.Ended(c.Op, "", ctx, nil)
	case g.reenter(o):
		return true, nil
	case c.Wait && g.WaitsForItself(ctx, h.owner):
		return false, lockerr.New(c.Op, "", lockerr.ErrDeadlock)
	}
	if err := g.admit(ctx, o, c); err != nil {
		return false, err
	}
	ok, err := g.acquire(arbiter.WithOwner(ctx, h.owner), h, c)
	if ok {
		c.Got(h, false)
	}
	return ok, err
}

// Unlock unlocks every member, even if others fail, and joins their errors.
func (g *Group) Unlock(ctx context.Context) error {
	const op = "unlock group"
	if g.err != nil {
		return lockerr.New(op, "", g.err)
	}
	h, last := g.exit(arbiter.OwnerOf(ctx))
	switch {
	case h == nil:
		return lockerr.New(op, "", lockerr.ErrNotHeld)
	case !last:
		return engine.StateErr(op, "", h.State())
	}
	held, told := h.end()
	err := g.release(arbiter.WithOwner(ctx, h.owner), h.owner)
	if !held && !errors.Is(err, lockerr.ErrLost) { // a member of another type need not say so
		err = lockerr.Join(lockerr.New(op, "", lockerr.ErrLost), err)
	}
	told.End(ctx, err, cmp.Or(h.memberLoss(), errMember))
	return err
}

// ReleaseInBackground ends one Lock of o without waiting for Redis.
func (g *Group) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	h, last := g.exit(o)
	if !last {
		return
	}
	held, told := h.end()
	for _, l := range g.members {
		giveBack(arbiter.WithOwner(ctx, h.owner), h.owner, l)
	}
	if held {
		told.End(ctx, nil, nil)
	}
}

// release ends one Lock of every member: of those of one engine in one pipeline for each node, and all
// concurrently, so that a server that does not answer keeps no other member locked.
func (g *Group) release(ctx context.Context, o *arbiter.Owner) error {
	batches := batchesOf(g.members)
	errs := make([][]error, len(batches))
	var all errgroup.Group
	for i, b := range batches {
		all.Go(func() error {
			if b.locks != nil {
				errs[i] = engine.UnlockAll(ctx, o, b.locks)
			} else {
				errs[i] = []error{b.members[0].Unlock(ctx)}
			}
			return nil
		})
	}
	_ = all.Wait()
	return lockerr.Join(slices.Concat(errs...)...)
}

// Done returns a channel that is closed when the latest hold taken through g ends.
func (g *Group) Done() <-chan struct{} {
	if h := g.last(); h != nil {
		return h.Done()
	}
	return arbiter.Closed
}

// Err returns nil while the latest hold taken through g is held, else ErrLost or ErrNotHeld.
func (g *Group) Err() error {
	if h := g.last(); h != nil {
		return engine.StateErr("group", "", h.State())
	}
	return lockerr.New("group", "", lockerr.ErrNotHeld)
}

// The following make a group a Member of another one.

// Name returns the members' names.
func (g *Group) Name() string { return g.name }

// Order returns no place: members have several names.
func (g *Group) Order() (string, int) { return "", 0 }

// Engines returns those of all members.
func (g *Group) Engines() (all []*engine.Engine) {
	for _, m := range g.known {
		all = append(all, m.Engines()...)
	}
	return all
}

// Parts returns those of all members.
func (g *Group) Parts() (all []engine.Part) {
	for _, m := range g.known {
		all = append(all, m.Parts()...)
	}
	return all
}

// WaitsForItself reports whether Lock by o would wait for a Do that ctx comes from, as one of the
// members would.
func (g *Group) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	return engine.ScopeOf(ctx) != nil && slices.ContainsFunc(g.known, func(m engine.Member) bool {
		return m.WaitsForItself(ctx, o)
	})
}
