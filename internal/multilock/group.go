package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lockerr"
)

// A Group locks its members as one: all or none. It is safe for concurrent use.
type Group struct {
	members   []Locker        // in canonical order
	known     []engine.Member // those of this module
	strangers []stranger      // the others
	err       error           // misuse, returned by every operation
	observer  event.Observer  // those of the members' sessions
	name      string          // for observers: the members' names

	// Members may be shared with others, so nothing but them excludes anybody: every hold is one of a reader, and
	// every call asks by itself.
	table  *arbiter.Table[*hold]
	handle arbiter.Handle[*hold]
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

var rules = arbiter.Rules[*hold]{
	Open:     true,
	Now:      clock{}.Now,
	Certain:  func(*hold, int64) bool { return true },                 // each loss is told
	Outlasts: func(newer, _ *hold) bool { return !newer.lost.Load() }, // the members' leases began later
}

// New returns a group of locks. Its first call reports misuse: no member, a nil member, or members
// that exclude each other. A lock that is a member twice is locked twice.
func New(locks ...Locker) *Group {
	g := &Group{members: slices.Clone(locks), table: arbiter.NewTable(rules)}
	g.table.Init(&g.handle, "", arbiter.Read)
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
		} else {
			g.strangers = append(g.strangers, l.(stranger))
		}
		names = append(names, nameOf(l))
	}
	g.name = strings.Join(names, ", ")
	g.checkParts()
	return g
}

// checkParts finds members that can never be locked together, and the members' observers.
func (g *Group) checkParts() {
	taken := make(map[[2]string]engine.Part) // by deployment and key
	var observers event.All
	for _, p := range g.Parts() {
		at := [2]string{p.Engine.Deployment(), p.Key}
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
	ok, err := g.Acquire(ctx, g.handle.OwnerOf(ctx), &c)
	c.End(ok, err)
	return ok, err
}

// clock is the clock of groups, whose members may be of several engines.
type clock struct{}

var epoch = time.Now()

func (clock) Now() int64 { return int64(time.Since(epoch)) }

// Acquire locks every member for o on behalf of a call, which waits or makes one attempt.
func (g *Group) Acquire(ctx context.Context, o *arbiter.Owner, c *engine.Call) (bool, error) {
	members := cmp.Or(arbiter.OwnerOf(ctx), new(arbiter.Owner)) // a handle does not enter again what is a member twice
	switch {
	case g.err != nil:
		return false, lockerr.New(c.Op, "", g.err)
	case ctx.Err() != nil:
		return false, lockerr.Ended(c.Op, "", ctx, nil)
	case g.HeldBy(o) == nil && c.Wait && g.WaitsForItself(ctx, members):
		return false, lockerr.New(c.Op, "", lockerr.ErrDeadlock)
	}
	w := g.table.Waiter(&g.handle, o, false, 0)
	defer g.table.Free(w)
	for {
		switch g.table.Enter(w, c.Wait) {
		case arbiter.Entered:
			return true, nil
		case arbiter.UnlockFirst:
			return false, lockerr.New(c.Op, "", lockerr.ErrUnlockFirst)
		case arbiter.Queued:
			c.Contend()
			engines := g.Engines()
			if slices.ContainsFunc(engines, (*engine.Engine).Closed) || !engine.Await(ctx, w.C, engines) {
				g.table.Quit(w)
				if ctx.Err() != nil {
					return false, lockerr.Ended(c.Op, "", ctx, lockerr.ErrUnlockFirst)
				}
				return false, lockerr.New(c.Op, "", lockerr.ErrClosed)
			}
		}
		h := &hold{g: g, owner: members, stop: make(chan struct{})}
		if ok, err := g.acquire(arbiter.WithOwner(ctx, members), h, c); !ok {
			g.table.Quit(w)
			return false, err
		}
		g.HeldBy(o) // what others of o have lost is not to go on with h
		granted, spare := g.table.GrantRead(w, h, true, 0)
		if spare != nil && spare.end() {
			spare.giveBack(ctx, g.members)
		}
		if h.lost.Load() { // perhaps before the table knew it
			h.lose()
		}
		if granted != nil {
			c.Got(granted, false)
			return true, nil
		}
		g.table.Quit(w) // it must wait for an unlock
	}
}

// Unlock unlocks every member, even if others fail, and joins their errors.
func (g *Group) Unlock(ctx context.Context) error {
	const op = "unlock group"
	if g.err != nil {
		return lockerr.New(op, "", g.err)
	}
	x, last, told := g.exit(arbiter.OwnerOf(ctx))
	if x.Outcome == arbiter.NotHeld {
		return lockerr.New(op, "", lockerr.ErrNotHeld)
	}
	var err error
	if last {
		err = x.Lease.unlock(ctx)
	}
	if x.Outcome == arbiter.WasLost && !errors.Is(err, lockerr.ErrLost) { // a member of another type need not say so
		err = lockerr.Join(lockerr.New(op, "", x.Hold.Cause()), err)
	}
	told.End(ctx, err, x.Lease.cause())
	return err
}

// ReleaseInBackground ends one Lock of o without waiting for Redis.
func (g *Group) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	x, last, told := g.exit(o)
	if last {
		x.Lease.giveBack(ctx, g.members)
	}
	told.End(ctx, nil, nil)
}

// exit ends one Lock of o in the arbiter, and reports whether it was the last one of the hold, so that the members
// are to be unlocked.
func (g *Group) exit(o *arbiter.Owner) (x arbiter.Exit[*hold], last bool, told *engine.Unlocking) {
	x = g.table.Exit(&g.handle, o, nil)
	switch x.Outcome {
	case arbiter.WasLost:
		last = g.table.Newest(&g.handle, x.Hold.Owner) != x.Hold && x.Lease.end()
	case arbiter.Left, arbiter.Release:
		told = engine.Unlock(g.observer, x.Hold, x.Outcome == arbiter.Release, g.name, event.Group, clock{})
		last = x.Outcome == arbiter.Release && x.Lease.end()
	}
	return x, last, told
}

// Done returns a channel that is closed when the latest hold taken through g ends.
func (g *Group) Done() <-chan struct{} {
	if l := refresh(g.handle.Latest()); l != nil {
		return l.Done()
	}
	return arbiter.Closed
}

// Err returns nil while the latest hold taken through g is held, else ErrLost or ErrNotHeld.
func (g *Group) Err() error {
	if l := refresh(g.handle.Latest()); l != nil {
		return engine.HoldErr("group", "", l)
	}
	return lockerr.New("group", "", lockerr.ErrNotHeld)
}

// refresh loses l, if it is not nil, if a member is lost or past its deadline: a process that was frozen may look
// before its watchdog does.
func refresh(l *locked) engine.Held {
	if l == nil {
		return nil
	}
	h := l.Lease()
	for _, m := range h.g.known {
		m.HeldBy(h.owner)
	}
	for _, done := range h.dones {
		select {
		case <-done:
			h.lose()
		default:
		}
	}
	return l
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

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (g *Group) HeldBy(o *arbiter.Owner) engine.Held {
	return refresh(g.table.Newest(&g.handle, o))
}

// DeadlineOf returns the first of the members' deadlines, if h is live and all are known.
func (g *Group) DeadlineOf(h engine.Held) (first time.Time, ok bool) {
	holds := h.(*locked).Lease().holds
	if h.State() != arbiter.Live || len(g.strangers) > 0 {
		return first, false
	}
	for i, m := range g.known {
		at, ok := m.DeadlineOf(holds[i])
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
	if h.State() == arbiter.Ended {
		return nil
	}
	for i, m := range g.known {
		parts = append(parts, m.Taken(h.(*locked).Lease().holds[i], key)...)
	}
	return parts
}
