package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"golang.org/x/sync/errgroup"
)

// A Group locks its members as one: all or none. It is safe for concurrent use.
type Group struct {
	leaves    []acquire.Leaf   // the members of this module, in canonical order
	strangers []acquire.Locker // the others
	members   []any            // all of them, in this order
	keys      []string         // the members' in the order that is the same for all groups; empty if a member has none
	batches   [][]int          // members that are asked together, by index: each once
	err       error            // misuse, returned by every operation
	checked   atomic.Bool      // there is no other misuse
	observer  event.Observer   // those of the members' sessions
	name      string           // for observers: the members' names
	given     []int            // the members' indices in the order in which they were given to New

	// Members may be shared with others, so they alone exclude: each call without an owner has a
	// hold of its own.
	mu   sync.Mutex             // protects the following, and the counts of holds
	held map[*local.Owner]*hold // of owners, until they have unlocked; an owner enters again
}

// New returns a group of locks, each a *Group, an acquire.Leaf, or an acquire.Locker. Its first
// call reports misuse: no member, a nil member, or members that exclude each other. A lock that is
// a member twice is locked twice. A group stands for its members.
func New(locks ...any) *Group {
	g := &Group{held: make(map[*local.Owner]*hold)}
	var given []any
	if len(locks) == 0 {
		g.err = fmt.Errorf("%w: a group needs at least one member", lockerr.ErrOption)
	}
	for _, l := range locks {
		switch l := l.(type) {
		case nil:
			g.err = fmt.Errorf("%w: a member of the group is nil", lockerr.ErrOption)
		case *Group:
			g.leaves, g.strangers = append(g.leaves, l.leaves...), append(g.strangers, l.strangers...)
			g.err = cmp.Or(g.err, l.err)
			for _, i := range l.given {
				given = append(given, l.members[i])
			}
		case acquire.Leaf:
			g.leaves, given = append(g.leaves, l), append(given, l)
		case acquire.Locker:
			g.strangers, given = append(g.strangers, l), append(given, l)
		}
	}
	slices.SortStableFunc(g.leaves, func(a, b acquire.Leaf) int {
		ak, ai := a.Order()
		bk, bi := b.Order()
		return cmp.Or(cmp.Compare(ak, bk), ai-bi)
	})
	for _, l := range g.leaves {
		key, _ := l.Order()
		g.members, g.keys = append(g.members, l), append(g.keys, key)
	}
	for _, l := range g.strangers {
		g.members, g.keys = append(g.members, l), append(g.keys, "")
	}
	g.given = g.indices(given)
	var names []string
	for i, l := range g.members {
		names = append(names, nameOf(l))
		g.addToBatch(i)
	}
	g.name = strings.Join(names, ", ")
	var all []*acquire.Node
	for _, l := range g.leaves {
		for _, p := range l.Parts() {
			all = append(all, p.Node)
		}
	}
	g.observer = acquire.ObserverOf(all...)
	return g
}

// indices returns where members are. One that is a member twice is at two places.
func (g *Group) indices(members []any) []int {
	is := make([]int, len(members))
	used := make([]bool, len(g.members))
	for n, l := range members {
		for i, m := range g.members {
			if !used[i] && m == l {
				is[n], used[i] = i, true
				break
			}
		}
	}
	return is
}

// nameOf returns the name of a member, or its type if it has none.
func nameOf(l any) string {
	if n, ok := l.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", l)
}

// addToBatch adds a member to a batch of members that are tried at the same time. Members of one
// key are in different batches: the second enters with what the owner got by the first. So are
// strangers, who may be anything.
func (g *Group) addToBatch(i int) {
	at := slices.IndexFunc(g.batches, func(b []int) bool {
		return g.keys[i] != "" && !slices.ContainsFunc(b, func(j int) bool { return g.keys[j] == g.keys[i] || g.keys[j] == "" })
	})
	if at < 0 {
		at, g.batches = len(g.batches), append(g.batches, nil)
	}
	g.batches[at] = append(g.batches[at], i)
}

// misuse returns what is wrong with the group, nil if nothing is: members may exclude each other,
// so that they can never be locked together. Those of two sessions of one deployment are found once
// both have started.
func (g *Group) misuse() error {
	if g.err != nil || g.checked.Load() {
		return g.err
	}
	all, err := true, error(nil)
	taken := make(map[[2]string][]acquire.Part) // by deployment and key: one of each session
	for _, l := range g.leaves {
		for _, p := range l.Parts() {
			at := [2]string{p.Node.Deployment(), p.Key}
			if at[0] == "" {
				at[0], all = p.Node.ID, false
			}
			same := taken[at]
			if !slices.ContainsFunc(same, func(q acquire.Part) bool { return p.Node == q.Node }) {
				same = append(same, p)
			}
			for _, q := range same {
				if p.Family != q.Family || p.Node != q.Node && !(p.Shared && q.Shared) && min(p.Most, q.Most) < len(same) {
					err = fmt.Errorf("%w: members of the group exclude each other, locks %q", lockerr.ErrOption, nameOf(l))
				}
			}
			taken[at] = same
		}
	}
	g.checked.Store(all && err == nil)
	return err
}

// Take acquires every member: see [acquire.Member]. An owner that holds the group enters again.
func (g *Group) Take(ctx context.Context, o *local.Owner, _ *local.Crowd, wait, due bool) (acquire.Held, error) {
	switch h, err := g.enter(o, nil, due); {
	case err != nil:
		return nil, err
	case h != nil:
		return h, nil
	}
	c := acquire.NewCall(ctx, g.observer, g.name, event.Group, "lock group", wait)
	fresh, err := g.acquire(ctx, o, &c)
	giveBack := func(h acquire.Held, due bool) { _ = g.Release(context.WithoutCancel(ctx), h, due) }
	c.Due = due
	if fresh == nil {
		c.End(false, err, giveBack)
		return nil, err
	}
	switch h, err := g.enter(o, fresh, due); {
	case err != nil:
		fresh.giveBack(ctx, -1)
		c.End(false, err, giveBack)
		return nil, err
	case h != fresh:
		fresh.giveBack(ctx, -1)
		c.Entered(h)
		c.End(true, nil, giveBack)
		return h, nil
	}
	c.Got(fresh, false)
	c.End(true, nil, giveBack)
	fresh.watch()
	return fresh, nil
}

// enter returns the hold of o, which one more call enters. If there is none it is fresh, which the
// call has acquired: nil if that is nil. Another call of o may have been faster. It is an error if
// the hold was lost.
func (g *Group) enter(o *local.Owner, fresh *hold, due bool) (*hold, error) {
	g.mu.Lock()
	h := g.held[o]
	g.mu.Unlock()
	if h != nil {
		g.Refresh(h)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch h = g.held[o]; {
	case h != nil && h.State() == local.Lost:
		return nil, lockerr.New("lock group", "", lockerr.ErrUnlockFirst, h.Cause())
	case h != nil:
	case fresh == nil:
		return nil, nil
	default:
		if h = fresh; o != nil {
			g.held[o] = h
		}
	}
	h.count++
	if due {
		h.locks.Add(1)
	}
	return h, nil
}

// acquire locks every member on behalf of a call, or none.
func (g *Group) acquire(ctx context.Context, o *local.Owner, c *acquire.Call) (_ *hold, err error) {
	switch err := g.misuse(); {
	case err != nil:
		return nil, lockerr.New(c.Op, "", err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(c.Op, "", ctx, nil)
	}
	h := &hold{g: g, owner: o, parts: make([]acquire.Held, len(g.members)), taken: make([]bool, len(g.members))}
	if o == nil {
		h.as = local.NewOwner(nil) // a lock that is a member twice is entered again
	} else {
		h.as = o
	}
	got := false
	defer func() {
		if !got { // also if an observer has panicked
			h.giveBack(ctx, -1)
		}
	}()
	if got, err = h.acquire(local.WithOwner(ctx, h.as), c); !got {
		return nil, err
	}
	return h, nil
}

// Release ends one of the calls that held was granted to: see [acquire.Member]. The last one
// unlocks every member, even if others fail, and joins their errors.
func (g *Group) Release(ctx context.Context, held acquire.Held, due bool) (err error) {
	start, h := acquire.Now(), held.(*hold)
	g.mu.Lock()
	if h.count == 0 || due && !h.Due() {
		g.mu.Unlock()
		return acquire.ErrNotDue
	}
	h.count--
	if due {
		h.locks.Add(-1)
	}
	last := h.count == 0
	if last && g.held[h.owner] == h {
		delete(g.held, h.owner)
	}
	lost := !last && h.State() == local.Lost || last && !h.End(local.Ended, nil)
	g.mu.Unlock()
	if last {
		err = h.unlock(ctx)
	}
	if lost && !errors.Is(err, lockerr.ErrLost) { // a stranger need not say so
		err = lockerr.Join(lockerr.New(opUnlock, "", h.Cause()), err)
	}
	if last {
		acquire.ReportUnlock(ctx, g.observer, h, true, g.name, event.Group, start, err)
	}
	return err
}

// ReleaseOf is Release of what o has locked, by an Unlock.
func (g *Group) ReleaseOf(ctx context.Context, o *local.Owner) error {
	g.mu.Lock()
	h := g.held[o]
	g.mu.Unlock()
	if h == nil {
		return g.NotHeld()
	}
	err := g.Release(ctx, h, true)
	if err == acquire.ErrNotDue {
		return g.NotHeld()
	}
	return err
}

const opUnlock = "unlock group"

// NotHeld returns the error of an Unlock of which there is nothing to release.
func (g *Group) NotHeld() error {
	return lockerr.New(opUnlock, "", cmp.Or(g.misuse(), lockerr.ErrNotHeld))
}

// Refresh loses h if a member is past its deadline: a process that was frozen may look before its
// watchdog does.
func (g *Group) Refresh(h acquire.Held) {
	if h.State() != local.Live {
		return
	}
	for i, l := range g.leaves {
		l.Refresh(h.(*hold).parts[i])
	}
}

// How a group acquires its members.
//
// It tries all of them at the same time. If one is taken it gives the others back, waits for that
// one while it holds nothing, and tries the rest again. If others are always faster, it begins to
// keep what comes before the one that it waits for: so each wait brings it further in the canonical
// order. Two groups cannot deadlock each other: while a call holds a member it waits only for one
// that is later in that order.

const (
	togetherRounds = 3                     // before members are kept
	roundPause     = 20 * time.Microsecond // after the second round; later ones double it
	atOnce         = 100                   // members that are tried at the same time
)

// hold is what one call has locked: every member once. It is lost with the first of them.
type hold struct {
	local.Life
	g       *Group
	owner   *local.Owner   // nil: the call had none
	as      *local.Owner   // who holds the members
	parts   []acquire.Held // by member; nil: it is not locked
	taken   []bool         // by member: the last attempt has found it taken
	onLoss  func()         // of parts
	watches sync.WaitGroup // of strangers

	count int          // calls that it was granted to and that have not ended; guarded by g.mu
	locks atomic.Int32 // how many of these are due to an Unlock of the group; changed under the same
}

// Fence implements acquire.Held: a group has no token.
func (h *hold) Fence() int64 { return 0 }

// Due implements acquire.Held.
func (h *hold) Due() bool { return h.locks.Load() > 0 }

// Shared implements acquire.Held.
func (h *hold) Shared() bool { return h.owner != nil }

// foreign is the hold of a stranger, as far as its Done channel tells.
type foreign struct{ local.Life }

func (*foreign) Fence() int64 { return 0 }
func (*foreign) Due() bool    { return false }
func (*foreign) Shared() bool { return false }

// acquire locks all members, or some of them before it fails.
func (h *hold) acquire(ctx context.Context, c *acquire.Call) (bool, error) {
	for round := 0; ; round++ {
		taken, err := h.try(ctx, c)
		switch {
		case taken < 0:
			return true, nil
		case !c.Wait:
			return false, err
		case err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
			return false, lockerr.New(c.Op, nameOf(h.g.members[taken]), lockerr.Bare(err), ctx.Err(), context.Cause(ctx))
		case err == nil:
			c.Contend()
		}
		if round < togetherRounds {
			h.giveBack(ctx, -1)
		} else {
			h.giveBack(ctx, taken)
		}
		if round > 0 {
			timing.Pause(ctx, timing.Jitter(roundPause<<min(round, 9)))
		}
		if err == nil && ctx.Err() != nil {
			return false, lockerr.Taken(c.Op, nameOf(h.g.members[taken]), ctx, c.Waited(), nil)
		}
		if ok, err := h.lock(ctx, taken, c.Part(true).After(h.taken[taken])); !ok {
			return false, err // that which try has found, unless it has passed
		}
	}
}

// try makes one attempt to lock the members that h lacks, one batch after the other. It returns the
// first that is taken or in trouble, or was lost meanwhile; -1 if h has them all.
func (h *hold) try(ctx context.Context, c *acquire.Call) (taken int, err error) {
	taken = -1
	batches := h.g.batches
	if c.Try { // in order: of several that do this at the same time, one gets all
		batches = slices.Collect(slices.Chunk(slices.Concat(batches...), 1))
		slices.SortFunc(batches, slices.Compare)
	}
	for _, b := range batches {
		b = slices.DeleteFunc(slices.Clone(b), func(i int) bool { return h.parts[i] != nil })
		for n, err2 := range h.tryBatch(ctx, b, c) {
			if h.parts[b[n]] == nil && (taken < 0 || err == nil && err2 != nil) {
				taken, err = b[n], err2
			}
		}
		if taken >= 0 {
			return taken, err
		}
	}
	return slices.IndexFunc(h.parts, func(p acquire.Held) bool { return p.State() != local.Live }), nil
}

// tryBatch makes one attempt to lock each of a batch, all at the same time: what goes to one node
// goes in one pipeline.
func (h *hold) tryBatch(ctx context.Context, b []int, c *acquire.Call) []error {
	errs := make([]error, len(b))
	for from := 0; from < len(b); from += atOnce {
		some := b[from:min(from+atOnce, len(b))]
		together := h.together(some)
		var all errgroup.Group
		for n, i := range some {
			part := c.Part(false).With(together[h.nodeOf(i)])
			all.Go(func() error {
				defer part.Alone()
				_, errs[from+n] = h.lock(ctx, i, part)
				h.taken[i] = part.FoundTaken()
				return nil
			})
		}
		_ = all.Wait() // the errors are in errs
	}
	return errs
}

// together returns a batch for each node of which several members are to be locked.
func (h *hold) together(members []int) map[*acquire.Node]*transport.Batch {
	count := make(map[*acquire.Node]int)
	for _, i := range members {
		count[h.nodeOf(i)]++
	}
	batches := make(map[*acquire.Node]*transport.Batch)
	for n, k := range count {
		if n != nil && k > 1 {
			batches[n] = transport.NewBatch(n.Proto.Conn, k)
		}
	}
	return batches
}

// nodeOf returns where a member is; nil if it is of several, or of a type that this module does not
// know.
func (h *hold) nodeOf(i int) *acquire.Node {
	if l, ok := h.g.members[i].(*acquire.Lock); ok {
		return l.Node()
	}
	return nil
}

// lock locks one member on behalf of a call, which waits or makes one attempt.
func (h *hold) lock(ctx context.Context, i int, c *acquire.Call) (ok bool, err error) {
	switch l := h.g.members[i].(type) {
	case acquire.Leaf:
		held, err := l.Acquire(ctx, h.as, c)
		h.parts[i] = held
		return held != nil, err
	case acquire.Locker:
		if ok = c.Wait; ok {
			err = l.Lock(ctx)
		} else {
			ok, err = l.TryLock(ctx)
		}
		if ok = ok && err == nil; ok {
			h.tookStranger(i, l)
		}
	}
	return ok, err
}

// tookStranger notes that a stranger is locked, and watches it.
func (h *hold) tookStranger(i int, l acquire.Locker) {
	f, done := new(foreign), l.Done()
	h.parts[i] = f
	h.watches.Go(func() { // ends with f
		select {
		case <-done:
			if f.End(local.Lost, lockerr.CauseOf(l.Err(), lockerr.ErrMember)) {
				f.Tell()
			}
		case <-f.Done():
		}
	})
}

// watch makes h lost when one of its members is.
func (h *hold) watch() {
	g := h.g
	h.onLoss = func() {
		if h.End(local.Lost, h.cause()) {
			h.Tell()
			acquire.ReportLoss(g.observer, h, g.name, event.Group)
		}
	}
	for _, p := range h.parts {
		p.OnLoss(&h.onLoss)
	}
}

// cause returns why a member was lost.
func (h *hold) cause() error {
	for _, p := range h.parts {
		if cause := p.Cause(); cause != nil {
			return cause
		}
	}
	return lockerr.ErrMember
}

// giveBack unlocks the members without waiting for Redis, but those that come before another one in
// the canonical order, unless that is -1. ctx is for observers.
func (h *hold) giveBack(ctx context.Context, next int) {
	ctx = local.WithOwner(context.WithoutCancel(ctx), h.as)
	keys := h.g.keys
	for i, p := range h.parts {
		if p == nil || p.State() == local.Live && i < next && keys[i] < keys[next] {
			continue
		}
		h.parts[i] = nil
		switch l := h.g.members[i].(type) {
		case acquire.Leaf:
			l.ReleaseInBackground(ctx, p)
		case acquire.Locker:
			p.(*foreign).End(local.Ended, nil)
			_ = l.Unlock(ctx)
		}
	}
}

// unlock unlocks all members at the same time, so that a server that does not answer keeps no other
// member locked.
func (h *hold) unlock(ctx context.Context) error {
	ctx = local.WithOwner(ctx, h.as)
	errs := make([]error, len(h.parts))
	var all errgroup.Group
	for i, p := range h.parts {
		p.Forget(&h.onLoss)
		all.Go(func() error {
			switch l := h.g.members[i].(type) {
			case acquire.Leaf:
				errs[i] = l.Release(ctx, p, false)
			case acquire.Locker:
				errs[i] = l.Unlock(ctx)
				p.(*foreign).End(local.Ended, nil)
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
	h.watches.Wait()
	return lockerr.Join(errs...)
}

// The following make a group an acquire.Member.

// Name returns the members' names.
func (g *Group) Name() string { return g.name }

// DeadlineOf returns the first of the members' deadlines, if h is live and all are known.
func (g *Group) DeadlineOf(h acquire.Held) (first time.Time, ok bool) {
	if h.State() != local.Live || len(g.strangers) > 0 {
		return first, false
	}
	for i, l := range g.leaves {
		at, ok := l.DeadlineOf(h.(*hold).parts[i])
		if !ok {
			return time.Time{}, false
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first, true
}

// TakenBy returns the locks that members hold. After a loss those of other members are held until h
// is unlocked.
func (g *Group) TakenBy(h acquire.Held) (taken []acquire.Taken) {
	if h.State() == local.Ended {
		return nil
	}
	for i, l := range g.leaves {
		taken = append(taken, l.TakenBy(h.(*hold).parts[i])...)
	}
	return taken
}

// A Share is what a hold of a group has of one of its members.
type Share struct {
	Member acquire.Member // nil: it is of a type that this module does not know
	Held   acquire.Held
}

// SharesOf returns what h, a hold of the group, has of its members, in the order in which New was
// given them.
func (g *Group) SharesOf(h acquire.Held) []Share {
	shares := make([]Share, len(g.given))
	for n, i := range g.given {
		if l, ok := g.members[i].(acquire.Leaf); ok {
			shares[n] = Share{l, h.(*hold).parts[i]}
		}
	}
	return shares
}
