package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
)

// A Group locks its members as one: all or none. It is safe for concurrent use.
type Group struct {
	leaves    []engine.Leaf   // the members of this module, in canonical order
	strangers []engine.Locker // the others
	members   []engine.Locker // all of them, in this order
	keys      []string        // the members' in the order that is the same for all groups; empty if a member has none
	batches   [][]int         // members that are asked together, by index: each once
	engines   []*engine.Engine
	err       error          // misuse, returned by every operation
	observer  event.Observer // those of the members' sessions
	name      string         // for observers: the members' names

	// Members may be shared with others, so nothing but them excludes anybody: every hold is one of a reader, and
	// every call asks by itself.
	table  *arbiter.Table[*hold]
	handle arbiter.Handle[*hold]
}

var rules = arbiter.Rules[*hold]{
	Open:     true,
	Now:      engine.Now,
	ID:       func(h *hold) string { return fmt.Sprintf("%p", h) },
	Certain:  func(*hold, int64) bool { return true }, // each loss is told
	Outlasts: func(_, _ *hold) bool { return true },   // the members' leases of the newer one began later
}

// New returns a group of locks. Its first call reports misuse: no member, a nil member, or members
// that exclude each other. A lock that is a member twice is locked twice. A group stands for its members.
func New(locks ...engine.Locker) *Group {
	g := &Group{table: arbiter.NewTable(rules)}
	g.table.Init(&g.handle, "", arbiter.Read)
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
		case engine.Leaf:
			g.leaves = append(g.leaves, l)
		default:
			g.strangers = append(g.strangers, l)
		}
	}
	slices.SortStableFunc(g.leaves, func(a, b engine.Leaf) int {
		ak, ai := a.Order()
		bk, bi := b.Order()
		return cmp.Or(cmp.Compare(ak, bk), ai-bi)
	})
	for _, l := range g.leaves {
		key, _ := l.Order()
		g.members, g.keys = append(g.members, l), append(g.keys, key)
	}
	g.members, g.keys = append(g.members, g.strangers...), append(g.keys, make([]string, len(g.strangers))...)
	var names []string
	for i, l := range g.members {
		names = append(names, nameOf(l))
		g.addToBatch(i)
	}
	g.name = strings.Join(names, ", ")
	g.addSessions()
	return g
}

// nameOf returns the name of a member, or its type if it has none.
func nameOf(l engine.Locker) string {
	if n, ok := l.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", l)
}

// addToBatch adds a member to a batch of members that are tried at the same time. Members of one key are in different
// batches: the second enters with what the owner got by the first. So are strangers, who may be anything.
func (g *Group) addToBatch(i int) {
	at := slices.IndexFunc(g.batches, func(b []int) bool {
		return g.keys[i] != "" && !slices.ContainsFunc(b, func(j int) bool { return g.keys[j] == g.keys[i] || g.keys[j] == "" })
	})
	if at < 0 {
		at, g.batches = len(g.batches), append(g.batches, nil)
	}
	g.batches[at] = append(g.batches[at], i)
}

// addSessions notes the sessions of the members, and finds members that can never be locked together.
func (g *Group) addSessions() {
	taken := make(map[[2]string][]engine.Part) // by deployment and key: one of each session
	var all []*engine.Engine
	for _, l := range g.leaves {
		if l, ok := l.(*engine.Lock); ok { // a Redlock can be acquired without any of its sessions
			g.engines = append(g.engines, l.Engine())
		}
		for _, p := range l.Parts() {
			at := [2]string{p.Engine.Deployment(), p.Key}
			same := taken[at]
			if !slices.ContainsFunc(same, func(q engine.Part) bool { return p.Engine == q.Engine }) {
				same = append(same, p)
			}
			for _, q := range same {
				if p.Family != q.Family || p.Engine != q.Engine && !(p.Shared && q.Shared) && min(p.Most, q.Most) < len(same) {
					g.err = fmt.Errorf("%w: members of the group exclude each other, locks %q", lockerr.ErrOption, nameOf(l))
				}
			}
			taken[at], all = same, append(all, p.Engine)
		}
	}
	g.observer = engine.ObserverOf(all...)
}

// Lock locks every member.
func (g *Group) Lock(ctx context.Context) error {
	_, err := g.lock(ctx, true)
	return err
}

// TryLock makes one attempt to lock every member.
func (g *Group) TryLock(ctx context.Context) (bool, error) { return g.lock(ctx, false) }

func (g *Group) lock(ctx context.Context, wait bool) (bool, error) {
	c := engine.NewCall(ctx, g.observer, g.name, event.Group, "lock group", wait)
	ok, err := g.acquire(ctx, wait, &c)
	c.End(ok, err, func(h engine.Held) { g.takeBack(ctx, h.(*arbiter.Hold[*hold])) })
	return ok, err
}

// takeBack ends one Lock of h, which its caller does not know. ctx is for observers.
func (g *Group) takeBack(ctx context.Context, h *arbiter.Hold[*hold]) {
	if x := g.table.Return(&g.handle, h, nil); x.Last {
		_ = x.Lease.unlock(context.WithoutCancel(ctx))
	}
}

func (g *Group) acquire(ctx context.Context, wait bool, c *engine.Call) (bool, error) {
	o, members := g.handle.OwnerOf(ctx), arbiter.OwnerOf(ctx)
	if members == nil {
		members = new(arbiter.Owner) // a handle does not enter again what is a member twice
	}
	waits := func(l engine.Leaf) bool { return l.WaitsForItself(ctx, members) }
	switch {
	case g.err != nil:
		return false, lockerr.New(c.Op, "", g.err)
	case ctx.Err() != nil:
		return false, lockerr.Ended(c.Op, "", ctx, nil)
	case g.HeldBy(o) == nil && wait && slices.ContainsFunc(g.leaves, waits):
		return false, lockerr.New(c.Op, "", lockerr.ErrDeadlock)
	}
	w := g.table.Waiter(&g.handle, o, false, 0)
	var h *hold   // that the table does not know
	over := false // the call ends as it should
	defer func() {
		if !over { // an observer has panicked
			if got := g.table.Quit(w); got != nil {
				g.takeBack(ctx, got)
			}
			if h != nil {
				h.giveBack(ctx, -1)
			}
		}
		g.table.Free(w)
	}()
	ok, err := g.enter(ctx, w, members, c, &h)
	over = true
	return ok, err
}

// enter acquires the members for w, unless its owner holds the group. *asking is what it has locked of them while the
// table does not know.
func (g *Group) enter(
	ctx context.Context, w *arbiter.Waiter[*hold], members *arbiter.Owner, c *engine.Call, asking **hold,
) (bool, error) {
	o, wait := w.Owner, c.Wait
	for ; ; g.table.Quit(w) {
		switch g.table.Enter(w, wait) {
		case arbiter.Entered:
			return true, nil
		case arbiter.UnlockFirst:
			return false, lockerr.New(c.Op, "", lockerr.ErrUnlockFirst, g.handle.LossOf(o))
		case arbiter.Queued: // for the unlock of a hold that was lost
			c.Contend()
			if slices.ContainsFunc(g.engines, (*engine.Engine).Draining) || !engine.Await(ctx, w.C, g.engines) {
				g.table.Quit(w)
				if ctx.Err() != nil {
					return false, lockerr.Ended(c.Op, "", ctx, lockerr.ErrUnlockFirst)
				}
				return false, lockerr.New(c.Op, "", lockerr.ErrClosed)
			}
		}
		h := &hold{g: g, owner: members, parts: make([]engine.Held, len(g.members))}
		*asking = h
		if ok, err := h.acquire(arbiter.WithOwner(ctx, members), c); !ok {
			g.table.Quit(w)
			h.giveBack(ctx, -1)
			return false, err
		}
		g.HeldBy(o) // what others of o have lost is not to go on with h
		granted, spare := g.table.GrantRead(w, h, true, 0)
		*asking = nil
		if spare != h {
			h.watch()
		}
		if spare != nil {
			_ = spare.unlock(ctx)
		}
		if granted != nil { // otherwise it must wait for an unlock
			c.Got(granted, false)
			return true, nil
		}
	}
}

// Unlock unlocks every member, even if others fail, and joins their errors.
func (g *Group) Unlock(ctx context.Context) (err error) {
	const op = "unlock group"
	if g.err != nil {
		return lockerr.New(op, "", g.err)
	}
	start, x := engine.Now(), g.table.Exit(&g.handle, arbiter.OwnerOf(ctx), nil)
	switch x.Outcome {
	case arbiter.NotHeld:
		return lockerr.New(op, "", lockerr.ErrNotHeld)
	case arbiter.Kept:
		return nil
	}
	if x.Last {
		err = x.Lease.unlock(ctx)
	}
	if x.Outcome == arbiter.WasLost && !errors.Is(err, lockerr.ErrLost) { // a stranger need not say so
		err = lockerr.Join(lockerr.New(op, "", x.Hold.Cause()), err)
	}
	engine.ReportUnlock(ctx, g.observer, x.Hold, x.Outcome == arbiter.Release, g.name, event.Group, start, err)
	return err
}

// Done returns a channel that is closed when the latest hold taken through g ends.
func (g *Group) Done() <-chan struct{} { return engine.DoneOf(refresh(g.handle.Latest())) }

// Err returns nil while the latest hold taken through g is held, else ErrLost or ErrNotHeld.
func (g *Group) Err() error { return engine.ErrOf("group", "", refresh(g.handle.Latest())) }

// refresh loses l, if it is not nil, if a member is past its deadline: a process that was frozen may look before its
// watchdog does.
func refresh(l *arbiter.Hold[*hold]) *arbiter.Hold[*hold] {
	if l != nil {
		for _, m := range l.Lease().g.leaves {
			m.HeldBy(l.Lease().owner)
		}
	}
	return l
}

// How a group acquires its members.
//
// It tries all of them at the same time. If one is taken it gives the others back, waits for that one
// while it holds nothing, and tries the rest again. If others are always faster, it begins to keep what comes before
// the one that it waits for: so each wait brings it further in the canonical order. Two groups cannot deadlock each
// other: while a call holds a member it waits only for one that is later in that order.

const (
	togetherRounds = 3                     // before members are kept
	roundPause     = 20 * time.Microsecond // after the second round; later ones double it
)

// hold is what one call has locked: every member once. It is lost with the first of them.
type hold struct {
	g       *Group
	owner   *arbiter.Owner      // of the members' holds
	parts   []engine.Held       // by member; nil: it is not locked
	onEnd   func(arbiter.State) // of parts
	watches sync.WaitGroup      // of strangers
}

// foreign is the hold of a stranger, as far as its Done channel tells.
type foreign = arbiter.Hold[int]

// acquire locks all members, or some of them before it fails.
func (h *hold) acquire(ctx context.Context, c *engine.Call) (bool, error) {
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
			return false, lockerr.Taken(c.Op, nameOf(h.g.members[taken]), ctx, c.Waited())
		}
		if ok, err := h.lock(ctx, taken, c.Part(true)); !ok {
			return false, err // that which try has found, unless it has passed
		}
	}
}

// try makes one attempt to lock the members that h lacks, one batch after the other. It returns the first that is taken
// or in trouble, or was lost meanwhile; -1 if h has them all.
func (h *hold) try(ctx context.Context, c *engine.Call) (taken int, err error) {
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
	return slices.IndexFunc(h.parts, func(p engine.Held) bool { return p.State() != arbiter.Live }), nil
}

// tryBatch makes one attempt to lock each of a batch, all at the same time: the client sends what overlaps together.
func (h *hold) tryBatch(ctx context.Context, b []int, c *engine.Call) []error {
	errs := make([]error, len(b))
	var all sync.WaitGroup
	for n, i := range b {
		all.Go(func() { _, errs[n] = h.lock(ctx, i, c.Part(false)) })
	}
	all.Wait()
	return errs
}

// lock locks one member on behalf of a call, which waits or makes one attempt.
func (h *hold) lock(ctx context.Context, i int, c *engine.Call) (ok bool, err error) {
	switch l := h.g.members[i].(type) {
	case engine.Leaf:
		ok, err = l.Acquire(ctx, h.owner, c)
	default:
		if ok = c.Wait; ok {
			err = l.Lock(ctx)
		} else {
			ok, err = l.TryLock(ctx)
		}
	}
	if ok = ok && err == nil; ok {
		h.took(i)
	}
	return ok, err
}

// took notes that a member is locked.
func (h *hold) took(i int) {
	if i < len(h.g.leaves) {
		h.parts[i] = h.g.leaves[i].HeldBy(h.owner)
		return
	}
	f, done := new(foreign), h.g.members[i].Done()
	h.parts[i] = f
	h.watches.Go(func() { // ends with f
		select {
		case <-done:
			f.End(arbiter.Lost, lockerr.CauseOf(h.g.members[i].Err(), lockerr.ErrMember))
		case <-f.Done():
		}
	})
}

// watch makes h, which the table knows, lost when one of its members is. That is told with a shard of the member's
// arbiter locked, so the loss is reported a moment later.
func (h *hold) watch() {
	g := h.g
	h.onEnd = func(s arbiter.State) {
		if s == arbiter.Lost {
			lost, _ := g.table.Lose(g.handle.Name(), h, h.cause())
			time.AfterFunc(0, func() { engine.ReportLoss(g.observer, lost, g.name, event.Group) })
		}
	}
	for _, p := range h.parts {
		p.OnEnd(&h.onEnd)
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

// giveBack unlocks the members without waiting for Redis, but those that come before another one in the canonical
// order, unless that is -1. ctx is for observers.
func (h *hold) giveBack(ctx context.Context, next int) {
	ctx = arbiter.WithOwner(context.WithoutCancel(ctx), h.owner)
	keys := h.g.keys
	for i, p := range h.parts {
		if p == nil || p.State() == arbiter.Live && i < next && keys[i] < keys[next] {
			continue
		}
		h.parts[i] = nil
		if i < len(h.g.leaves) {
			h.g.leaves[i].ReleaseInBackground(ctx, h.owner)
		} else {
			p.(*foreign).End(arbiter.Ended, nil)
			_ = h.g.members[i].Unlock(ctx)
		}
	}
}

// unlock unlocks all members at the same time, so that a server that does not answer keeps no other member locked.
func (h *hold) unlock(ctx context.Context) error {
	ctx = arbiter.WithOwner(ctx, h.owner)
	errs := make([]error, len(h.parts))
	var all sync.WaitGroup
	for i, l := range h.g.members {
		all.Go(func() { errs[i] = l.Unlock(ctx) })
	}
	all.Wait()
	for i, p := range h.parts {
		if p.Forget(&h.onEnd); i >= len(h.g.leaves) {
			p.(*foreign).End(arbiter.Ended, nil)
		}
	}
	h.watches.Wait()
	return lockerr.Join(errs...)
}

// The following make a group an engine.Member.

// Name returns the members' names.
func (g *Group) Name() string { return g.name }

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (g *Group) HeldBy(o *arbiter.Owner) engine.Held {
	if l := refresh(g.table.Newest(&g.handle, o)); l != nil {
		return l
	}
	return nil
}

// DeadlineOf returns the first of the members' deadlines, if h is live and all are known.
func (g *Group) DeadlineOf(h engine.Held) (first time.Time, ok bool) {
	if h.State() != arbiter.Live || len(g.strangers) > 0 {
		return first, false
	}
	for i, l := range g.leaves {
		at, ok := l.DeadlineOf(h.(*arbiter.Hold[*hold]).Lease().parts[i])
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
	for i, l := range g.leaves {
		parts = append(parts, l.Taken(h.(*arbiter.Hold[*hold]).Lease().parts[i], key)...)
	}
	return parts
}
