package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	orders  []string // what that goes by; empty if unknown
	fast    []*Mutex // the members, if one script can take them all
	err     error

	mu      sync.Mutex    // protects the following
	open    []*groupHold  // holds whose Unlock is outstanding, oldest first
	latest  *groupHold    // last hold taken
	changed chan struct{} // closed when open has shrunk
}

var _ Locker = (*Group)(nil)

// groupHold is one hold of a group, from one Lock to its Unlock.
type groupHold struct {
	arbiter.Hold[struct{}]
	anonymous bool
	stop      chan struct{} // ends the watches of members of unknown types
	watches   sync.WaitGroup
}

// member is a lock type of this package as part of a group.
type member interface {
	Locker
	order() string
	session() *Session
	onEnd(o *arbiter.Owner, f func(arbiter.State)) // of the hold of o
	abandon(o *arbiter.Owner)                      // ends one lock of o without waiting for Redis
}

// NewGroup returns a group of locks. It sends nothing and cannot fail: no member, a nil
// member, or members that exclude each other are reported by the first call. A lock
// that is a member twice is locked twice.
func NewGroup(locks ...Locker) *Group {
	g := &Group{changed: make(chan struct{})}
	g.members = slices.Clone(locks)
	order := func(l Locker) string {
		if m, ok := l.(member); ok && !isNil(l) {
			return m.order()
		}
		return ""
	}
	slices.SortStableFunc(g.members, func(a, b Locker) int { return cmp.Compare(order(a), order(b)) })
	for _, l := range g.members {
		g.orders = append(g.orders, order(l))
	}
	if g.err = g.check(); g.err == nil {
		g.fast = g.fastPath()
	}
	return g
}

func isNil(l Locker) bool {
	switch m := l.(type) {
	case nil:
		return true
	case *Mutex:
		return m == nil
	case *FairMutex:
		return m == nil
	case *RWMutex:
		return m == nil
	case *rlocker:
		return m == nil
	case *Group:
		return m == nil
	case *Redlock:
		return m == nil
	}
	return false
}

// check finds what can never work.
func (g *Group) check() error {
	if len(g.members) == 0 {
		return fmt.Errorf("%w: a group needs at least one member", ErrOption)
	}
	type place struct{ deployment, name string }
	kinds := make(map[place]member)
	for _, l := range g.members {
		if isNil(l) {
			return fmt.Errorf("%w: a member of the group is nil", ErrOption)
		}
		m, ok := l.(member)
		if !ok || m.session() == nil {
			continue
		}
		at := place{m.session().deployment(), m.order()}
		if i := slices.Index([]byte(at.name), 0); i >= 0 {
			at.name = at.name[:i]
		}
		other := kinds[at]
		if other != nil && (other.session() != m.session() || fmt.Sprintf("%T", other) != fmt.Sprintf("%T", m) && !sides(other, m)) {
			return fmt.Errorf("%w: two members of the group exclude each other, both are locks %q", ErrOption, at.name)
		}
		kinds[at] = m
	}
	return nil
}

// sides reports whether a and b are the two sides of a read-write lock, which one owner
// may hold together.
func sides(a, b member) bool {
	_, w := a.(*RWMutex)
	_, r := b.(*rlocker)
	return w && r
}

// fastPath returns the members if one script can take them all.
func (g *Group) fastPath() []*Mutex {
	var ms []*Mutex
	for i, l := range g.members {
		m, ok := l.(*Mutex)
		if !ok || m.usable("") != nil || m.s.cfg.replicas > 0 ||
			i > 0 && (m.s != ms[0].s || m.keys.name == ms[i-1].keys.name ||
				m.s.proto.slot(m.keys.name) != m.s.proto.slot(ms[0].keys.name)) {
			return nil
		}
		ms = append(ms, m)
	}
	return ms
}

func (g *Group) usable(op string) error {
	if g == nil || g.changed == nil {
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
	gh := &groupHold{stop: make(chan struct{})}
	gh.Owner = ownerOf(ctx)
	if gh.Owner == nil {
		if ok, err := g.afterLoss(ctx, op, wait); !ok {
			return false, err
		}
		// One owner for all members, so that the unlock finds what this call locked.
		gh.anonymous = true
		gh.Owner = new(arbiter.Owner)
	}
	ok, err := g.acquire(context.WithValue(ctx, ownerKey{}, gh.Owner), gh.Owner, wait)
	if !ok {
		return false, err
	}
	g.mu.Lock()
	g.open = append(g.open, gh)
	g.latest = gh
	g.mu.Unlock()
	g.watch(gh)
	return true, nil
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
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctxFailed(op, "", ctx, nil)
		}
	}
}

// watch has gh lost when a member is.
func (g *Group) watch(gh *groupHold) {
	lost := func(s arbiter.State) {
		if s == arbiter.Lost {
			gh.End(arbiter.Lost)
		}
	}
	for _, l := range g.members {
		if m, ok := l.(member); ok {
			m.onEnd(gh.Owner, lost)
			continue
		}
		done := l.Done()
		gh.watches.Go(func() { // ended by Unlock
			select {
			case <-done:
				gh.End(arbiter.Lost)
			case <-gh.stop:
			}
		})
	}
}

// acquire locks the members, or none.
func (g *Group) acquire(ctx context.Context, o *arbiter.Owner, wait bool) (bool, error) {
	const patience = 3 // rounds before the members are locked one by one
	first := -1
	for round := 0; ; round++ {
		oneByOne := g.fast == nil
		if g.fast != nil && round >= patience {
			oneByOne, first = true, -1
		}
		taken, err := g.round(ctx, o, wait, first, oneByOne)
		if err != nil || taken < 0 || !wait {
			return err == nil && taken < 0, err
		}
		first = taken
		if round > 0 {
			time.Sleep(jitter(time.Duration(min(round, 10)) * stepMin))
		}
	}
}

// round locks the member first and then the others. If one is taken and must not be
// waited for, it gives everything back and returns that one's place.
func (g *Group) round(ctx context.Context, o *arbiter.Owner, wait bool, first int, oneByOne bool) (taken int, err error) {
	var held []int
	taken = -1
	defer func() {
		if err != nil || taken >= 0 {
			for _, i := range slices.Backward(held) {
				g.giveBack(ctx, o, g.members[i])
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
	if !oneByOne {
		taken, err = g.tryFast(ctx, o, first, wait)
		return taken, err
	}
	for i, l := range g.members {
		if i == first {
			continue
		}
		if wait && (len(held) == 0 || g.orders[i] > highest && highest != "") {
			err = l.Lock(ctx)
		} else {
			var ok bool
			if ok, err = l.TryLock(ctx); err == nil && !ok {
				return i, nil
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

// giveBack ends one lock of a member that the group does not get after all.
func (g *Group) giveBack(ctx context.Context, o *arbiter.Owner, l Locker) {
	if m, ok := l.(member); ok {
		m.abandon(o)
		return
	}
	_ = l.Unlock(context.WithoutCancel(ctx))
}

// Unlock unlocks every member, whatever happens to the others, and returns their errors
// joined; see [Locker].
func (g *Group) Unlock(ctx context.Context) error {
	const op = "unlock group"
	if err := g.usable(op); err != nil {
		return err
	}
	gh := g.take(ownerOf(ctx))
	if gh == nil {
		return failed(op, "", ErrNotHeld)
	}
	lost := !gh.End(arbiter.Ended)
	close(gh.stop)
	gh.watches.Wait()
	ctx = context.WithValue(ctx, ownerKey{}, gh.Owner)
	var errs []error
	if g.fast != nil {
		errs = g.unlockFast(ctx, gh.Owner)
	} else {
		for _, l := range slices.Backward(g.members) {
			errs = append(errs, l.Unlock(ctx))
		}
	}
	if err := errors.Join(errs...); err != nil || !lost {
		return err
	}
	return failed(op, "", ErrLost)
}

// take removes the hold that an unlock is for, by the rules of Mutex.
func (g *Group) take(o *arbiter.Owner) *groupHold {
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
		return nil
	}
	gh := g.open[at]
	g.open = slices.Delete(g.open, at, at+1)
	close(g.changed)
	g.changed = make(chan struct{})
	return gh
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
	h := g.last()
	if h == nil {
		return errors.Join(g.usable("state of group"), failed("state of group", "", ErrNotHeld))
	}
	return stateErr("state of group", "", h.State())
}

func (g *Group) last() *groupHold {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest
}
