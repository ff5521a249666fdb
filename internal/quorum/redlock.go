package quorum

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// A Redlock is a lock over several deployments, held while a majority of them holds it. It is
// safe for concurrent use. Values of one name over the same sessions are the same lock.
type Redlock struct {
	name     string
	key      string         // the least of the locks' keys, which depend on the sessions' prefixes
	nodes    []*engine.Lock // of the deployments
	engines  []*engine.Engine
	lease    time.Duration // the shortest of the deployments'
	cfg      engine.LockConfig
	err      error          // misuse, returned by every operation
	e        *engine.Engine // of the session with the least id; its clock is the lock's
	table    *Table         // of that session
	handle   arbiter.Handle[*hold]
	observer event.Observer // those of the sessions
}

// Table arbitrates the Redlocks of a process, by the session that it belongs to.
type Table = arbiter.Table[*hold]

// A Session is an engine, and the table that belongs to it.
type Session struct {
	Engine *engine.Engine
	Table  *Table
}

// locked is a hold as the table knows it.
type locked = arbiter.Hold[*hold]

// NewTable returns the table of a session.
func NewTable(e *engine.Engine) *Table {
	return arbiter.NewTable(arbiter.Rules[*hold]{
		Now:     e.Clock.Now,
		Certain: func(h *hold, _ int64) bool { return h.left() > 0 },
		Expire:  func(_ string, h *hold) { h.lose(lockerr.ErrExpired) },
		Pass: func(h *hold, length, now int64) (int64, bool) {
			r := h.r
			ok := r.cfg.Passable() && int64(r.lease) == length && now-h.since < int64(e.Config.Tenure) && h.left() >= r.lease/2 && !r.closed()
			if ok = ok && h.token < h.top; ok {
				h.token++
			}
			return h.token, ok
		},
	})
}

// New returns the lock of a name over the deployments of sessions. Its first call reports misuse:
// no session, two of one deployment, a bad name or option.
func New(sessions []Session, name string, cfg engine.LockConfig) *Redlock {
	r := &Redlock{name: name, cfg: cfg, table: nowhere}
	if len(sessions) == 0 {
		r.err = fmt.Errorf("%w: a Redlock needs at least one session, better three or five", lockerr.ErrOption)
	}
	deployments := make(map[string]bool)
	var ids []string
	for _, s := range sessions {
		e := s.Engine
		if e == nil {
			r.err = fmt.Errorf("%w: a Session of the Redlock is nil", lockerr.ErrOption)
			continue
		}
		l := new(engine.Lock)
		l.Init(e, wire.Plain, name, cfg)
		if r.err = cmp.Or(r.err, l.Invalid()); deployments[e.Deployment()] && r.err == nil {
			r.err = fmt.Errorf("%w: two sessions of the Redlock lead to the same Redis", lockerr.ErrOption)
		}
		deployments[e.Deployment()] = true
		if r.lease == 0 || l.Length() < r.lease {
			r.lease = l.Length()
		}
		if key, _ := l.Order(); r.key == "" || key < r.key {
			r.key = key
		}
		if r.e == nil || e.ID() < r.e.ID() {
			r.e, r.table = e, s.Table
		}
		r.nodes, r.engines, ids = append(r.nodes, l), append(r.engines, e), append(ids, e.ID())
	}
	r.observer = engine.ObserverOf(r.engines...)
	slices.Sort(ids)
	r.table.Init(&r.handle, name+"\x00"+strings.Join(ids, " "), arbiter.Write)
	return r
}

// nowhere is the table of Redlocks without a session, which are never locked.
var nowhere = arbiter.NewTable(arbiter.Rules[*hold]{})

// Name returns the name of the lock.
func (r *Redlock) Name() string { return r.name }

func (r *Redlock) quorum() int { return len(r.nodes)/2 + 1 }

// closed reports whether the sessions that grant anything new are not a majority any more.
func (r *Redlock) closed() bool {
	open := slices.DeleteFunc(slices.Clone(r.engines), (*engine.Engine).Draining)
	return len(open) < r.quorum()
}

// Lock locks r. It waits for deployments that are down, even if they are a majority.
func (r *Redlock) Lock(ctx context.Context) error {
	_, err := r.lock(ctx, true)
	return err
}

// TryLock makes one attempt. If no majority of the deployments answers, it returns their errors.
func (r *Redlock) TryLock(ctx context.Context) (bool, error) { return r.lock(ctx, false) }

func (r *Redlock) lock(ctx context.Context, wait bool) (bool, error) {
	c := engine.NewCall(ctx, r.observer, r.name, event.Redlock, "lock", wait)
	ok, err := r.Acquire(ctx, r.handle.OwnerOf(ctx), &c)
	c.End(ok, err, func(h engine.Held) { r.giveBack(h.(*locked)) })
	return ok, err
}

// Acquire locks r for o on behalf of a call, which waits or makes one attempt.
func (r *Redlock) Acquire(ctx context.Context, o *arbiter.Owner, c *engine.Call) (bool, error) {
	switch {
	case r.err != nil:
		return false, lockerr.New(c.Op, r.name, r.err)
	case ctx.Err() != nil:
		return false, lockerr.Ended(c.Op, r.name, ctx, nil)
	case c.Wait && r.WaitsForItself(ctx, o):
		return false, lockerr.New(c.Op, r.name, lockerr.ErrDeadlock)
	}
	ctx, stop := r.cfg.Bounded(ctx, c)
	defer stop()
	return r.enter(ctx, o, c)
}

// enter waits for the call's turn in this process and then, unless another goroutine passes the
// lock on, acquires it from the deployments.
func (r *Redlock) enter(ctx context.Context, o *arbiter.Owner, c *engine.Call) (bool, error) {
	w, over := r.table.Waiter(&r.handle, o, r.cfg.Passable(), int64(r.lease)), false
	defer func() {
		if !over { // an observer has panicked
			if h := r.table.Quit(w); h != nil {
				r.giveBack(h)
			}
		}
		r.table.Free(w)
	}()
	ok, err := r.enterAs(ctx, w, c)
	over = true
	return ok, err
}

func (r *Redlock) enterAs(ctx context.Context, w *arbiter.Waiter[*hold], c *engine.Call) (bool, error) {
	switch o := w.Owner; r.table.Enter(w, c.Wait) {
	case arbiter.Entered:
		c.Entered(r.table.Answer(w))
		return true, nil
	case arbiter.UnlockFirst:
		return false, lockerr.New(c.Op, r.name, lockerr.ErrUnlockFirst, r.handle.LossOf(o))
	case arbiter.Busy:
		if r.closed() {
			return false, lockerr.New(c.Op, r.name, lockerr.ErrClosed)
		}
		return false, nil
	case arbiter.Queued:
		c.Contend()
		if err := r.awaitTurn(ctx, w, c); err != nil {
			return false, err
		}
		if h := r.table.Answer(w); h != nil {
			if refresh(h).State() != arbiter.Live { // it expired before this call woke up
				r.giveBack(h)
				return r.enter(ctx, w.Owner, c)
			}
			c.Got(h, true)
			return true, nil
		}
	}
	h, err := r.acquire(ctx, w, c)
	if h == nil {
		r.table.Quit(w)
		return false, err
	}
	granted, _ := r.table.Grant(w, h, h.token)
	c.Got(granted, false)
	h.begin() // after the grant, so that a loss finds the hold
	return true, nil
}

// awaitTurn blocks until the arbiter answers w. If the call ends first, it takes w out of the queue, gives
// back what w was granted meanwhile, and returns why.
func (r *Redlock) awaitTurn(ctx context.Context, w *arbiter.Waiter[*hold], c *engine.Call) (err error) {
	for r.closed() || !engine.Await(ctx, w.C, r.engines) {
		switch b := r.table.Blocked(&r.handle); {
		case ctx.Err() != nil && r.handle.MustUnlockFirst(w.Owner):
			err = lockerr.Ended(c.Op, r.name, ctx, lockerr.ErrUnlockFirst)
		case ctx.Err() != nil:
			err = r.ended(ctx, c, b.Held || b.Refused, b.Err)
		case r.closed():
			err = lockerr.New(c.Op, r.name, lockerr.ErrClosed)
		default:
			continue // one session was closed, the others are a majority
		}
		if h := r.table.Quit(w); h != nil {
			r.giveBack(h)
		}
		return err
	}
	return nil
}

// ended returns the error of a call whose ctx has ended. The last round failed with err, perhaps
// only because of that.
func (r *Redlock) ended(ctx context.Context, c *engine.Call, taken bool, err error) error {
	if taken || err == nil && c.Contended() {
		return lockerr.Taken(c.Op, r.name, ctx, c.Waited())
	}
	return lockerr.Ended(c.Op, r.name, ctx, lockerr.Bare(err))
}

// Unlock ends one Lock of r. The last one waits until a majority has confirmed the release; the others continue in the
// background. It returns ErrLost if no majority had the lock until then.
func (r *Redlock) Unlock(ctx context.Context) error {
	if r.err != nil {
		return lockerr.New("unlock", r.name, r.err)
	}
	return r.unlock(ctx, arbiter.OwnerOf(ctx), (*hold).release)
}

// ReleaseInBackground ends one Lock of o without waiting for Redis.
func (r *Redlock) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	_ = r.unlock(ctx, o, func(h *hold, _ context.Context) error { h.discard(); return nil })
}

// unlock ends one Lock of o, or of what was last taken through r if o is nil.
func (r *Redlock) unlock(
	ctx context.Context, o *arbiter.Owner, release func(*hold, context.Context) error,
) (err error) {
	start, x := engine.Now(), r.table.Exit(&r.handle, o, lockerr.ErrExpired)
	switch x.Outcome {
	case arbiter.NotHeld:
		return lockerr.New("unlock", r.name, lockerr.ErrNotHeld)
	case arbiter.Kept:
		return nil
	case arbiter.Expired: // for the caller such a hold was lost, like any other
		x.Lease.reportLost(x.Lost)
		return lockerr.New("unlock", r.name, lockerr.ErrExpired)
	case arbiter.WasLost:
		return lockerr.New("unlock", r.name, x.Hold.Cause())
	case arbiter.Release:
		err = release(x.Lease, ctx)
	}
	engine.ReportUnlock(ctx, r.observer, x.Hold, true, r.name, event.Redlock, start, err)
	return err
}

// giveBack ends one Lock of h, which was granted to a call that does not want it, and of which
// nobody was told.
func (r *Redlock) giveBack(h *locked) {
	switch x := r.table.Return(&r.handle, h, lockerr.ErrExpired); x.Outcome {
	case arbiter.Expired:
		x.Lease.reportLost(x.Lost)
	case arbiter.Release:
		x.Lease.discard()
	}
}

// refresh returns h after it has lost it, unless it is nil, if its deadline has passed: a process that was frozen may
// look before its watchdogs do.
func refresh(h *locked) *locked {
	if h != nil && h.State() == arbiter.Live && h.Lease().left() <= 0 {
		h.Lease().lose(lockerr.ErrExpired)
	}
	return h
}

// Done returns a channel that is closed when the latest hold taken through r ends.
func (r *Redlock) Done() <-chan struct{} { return engine.DoneOf(refresh(r.handle.Latest())) }

// Err returns nil while the latest hold taken through r is held, else ErrLost or ErrNotHeld.
func (r *Redlock) Err() error { return engine.ErrOf("lock", r.name, refresh(r.handle.Latest())) }

// FencingToken returns the token of the latest hold, also after its loss; 0 if there is none.
func (r *Redlock) FencingToken() int64 { return engine.TokenOf(r.handle.Latest()) }

// Deadline returns until when the latest hold taken through r is certain, if it is live.
func (r *Redlock) Deadline() (time.Time, bool) {
	if h := refresh(r.handle.Latest()); h != nil {
		return r.DeadlineOf(h)
	}
	return time.Time{}, false
}

// The following make a Redlock an engine.Leaf.

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (r *Redlock) HeldBy(o *arbiter.Owner) engine.Held {
	if h := refresh(r.table.Newest(&r.handle, o)); h != nil {
		return h
	}
	return nil
}

// DeadlineOf returns until when h is certain, if it is live.
func (r *Redlock) DeadlineOf(h engine.Held) (time.Time, bool) {
	if h.State() != arbiter.Live {
		return time.Time{}, false
	}
	return time.Now().Add(h.(*locked).Lease().left()), true
}

// Taken returns the locks with a key that h, if it is live, has on the deployments.
func (r *Redlock) Taken(h engine.Held, key string) (taken []engine.Part) {
	if refresh(h.(*locked)).State() != arbiter.Live {
		return nil
	}
	for i, p := range r.Parts() {
		if p.Key == key && h.(*locked).Lease().has(i) {
			taken = append(taken, p)
		}
	}
	return taken
}

// WaitsForItself reports whether Lock by o would wait for Dos that ctx comes from, because they
// leave no majority.
func (r *Redlock) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	waits := func(p engine.Part) bool { return p.WaitsForItself(ctx, o) }
	free := slices.DeleteFunc(r.Parts(), waits)
	return len(free) < r.quorum()
}

// Order puts Redlocks after the other locks of a key.
func (r *Redlock) Order() (key string, rank int) { return r.key, 2 }

// Parts returns the lock of each deployment. Redlocks over the same sessions are the same lock.
func (r *Redlock) Parts() (all []engine.Part) {
	for _, n := range r.nodes {
		part := n.Parts()[0]
		part.Family = "redlock " + r.handle.Name()
		all = append(all, part)
	}
	return all
}

// Queued returns how many calls wait for another one of this process, for tests.
func (r *Redlock) Queued() int { return r.table.Waiting(r.handle.Name(), arbiter.Write) }
