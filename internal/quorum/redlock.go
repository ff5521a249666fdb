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
	side     arbiter.Lock[*hold]
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
		Expire:  func(_ string, h *hold) { h.lose(h.why()) },
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
	r.table.Init(&r.side, name+"\x00"+strings.Join(ids, " "), arbiter.Write)
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

// Take acquires r: see [engine.Member]. A call that waits does so for deployments that are down,
// even if they are a majority. If it makes one attempt and no majority answers, it returns their
// errors.
func (r *Redlock) Take(ctx context.Context, o *arbiter.Owner, wait, due bool) (engine.Held, error) {
	c := engine.NewCall(ctx, r.observer, r.name, event.Redlock, "lock", wait)
	c.Due = due
	h, err := r.Acquire(ctx, o, &c)
	c.End(h != nil, err, func(h engine.Held, due bool) { r.giveBack(h.(*locked), due) })
	return h, err
}

// Acquire locks r for o on behalf of a call, which waits or makes one attempt.
func (r *Redlock) Acquire(ctx context.Context, o *arbiter.Owner, c *engine.Call) (engine.Held, error) {
	switch {
	case r.err != nil:
		return nil, lockerr.New(c.Op, r.name, r.err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(c.Op, r.name, ctx, nil)
	case c.Wait && r.waitsForItself(ctx, o):
		return nil, lockerr.New(c.Op, r.name, lockerr.ErrDeadlock)
	}
	ctx, stop := r.cfg.Bounded(ctx, c)
	defer stop()
	h, err := r.enter(ctx, o, c)
	if h == nil {
		return nil, err
	}
	return h, nil
}

// waitsForItself reports whether a Lock by o under ctx would wait for a section that ctx comes
// from.
func (r *Redlock) waitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	around := engine.AroundAt(ctx, r.table, r.side.Name())
	return slices.ContainsFunc(around, func(t engine.Taken) bool { return o == nil || t.Owner != o })
}

// enter waits for the call's turn in this process and then, unless another goroutine passes the
// lock on, acquires it from the deployments.
func (r *Redlock) enter(ctx context.Context, o *arbiter.Owner, c *engine.Call) (*locked, error) {
	w, over := r.table.Waiter(&r.side, o, r.cfg.Passable(), int64(r.lease)), false
	w.Due = c.Due
	defer func() {
		if !over { // an observer has panicked
			if h := r.table.Quit(w); h != nil {
				r.giveBack(h, c.Due)
			}
		}
		r.table.Free(w)
	}()
	h, err := r.enterAs(ctx, w, c)
	over = true
	return h, err
}

func (r *Redlock) enterAs(ctx context.Context, w *arbiter.Waiter[*hold], c *engine.Call) (*locked, error) {
	switch o := w.Owner; r.table.Enter(w, c.Wait) {
	case arbiter.Entered:
		h := r.table.Answer(w)
		c.Entered(h)
		return h, nil
	case arbiter.UnlockFirst:
		return nil, lockerr.New(c.Op, r.name, lockerr.ErrUnlockFirst, r.side.LossOf(o))
	case arbiter.Busy:
		if r.closed() {
			return nil, lockerr.New(c.Op, r.name, lockerr.ErrClosed)
		}
		return nil, nil
	case arbiter.Queued:
		c.Contend()
		if err := r.awaitTurn(ctx, w, c); err != nil {
			return nil, err
		}
		if h := r.table.Answer(w); h != nil {
			if r.Refresh(h); h.State() != arbiter.Live { // it expired before this call woke up
				r.giveBack(h, c.Due)
				return r.enter(ctx, w.Owner, c)
			}
			c.Got(h, true)
			return h, nil
		}
	}
	h, err := r.acquire(ctx, w, c)
	if h == nil {
		r.table.Quit(w)
		return nil, err
	}
	granted, _ := r.table.Grant(w, h, h.token)
	c.Got(granted, false)
	h.begin() // after the grant, so that a loss finds the hold
	return granted, nil
}

// awaitTurn blocks until the arbiter answers w. If the call ends first, it takes w out of the
// queue, gives back what w was granted meanwhile, and returns why.
func (r *Redlock) awaitTurn(ctx context.Context, w *arbiter.Waiter[*hold], c *engine.Call) (err error) {
	for r.closed() || !engine.Await(ctx, w.C, r.engines) {
		switch b := r.table.Blocked(w); {
		case ctx.Err() != nil && r.side.MustUnlockFirst(w.Owner):
			err = lockerr.Ended(c.Op, r.name, ctx, lockerr.ErrUnlockFirst)
		case ctx.Err() != nil:
			err = r.ended(ctx, w, c, b.Held || b.Refused, b.Err)
		case r.closed():
			err = lockerr.New(c.Op, r.name, lockerr.ErrClosed)
		default:
			continue // one session was closed, the others are a majority
		}
		if h := r.table.Quit(w); h != nil {
			r.giveBack(h, c.Due)
		}
		return err
	}
	return nil
}

// ended returns the error of a call whose ctx has ended. The last round failed with err, perhaps
// only because of that.
func (r *Redlock) ended(
	ctx context.Context, w *arbiter.Waiter[*hold], c *engine.Call, taken bool, err error,
) error {
	if taken || err == nil && r.seen(w) {
		return lockerr.Taken(c.Op, r.name, ctx, c.Waited())
	}
	return lockerr.Unavailable(c.Op, r.name, ctx, lockerr.Bare(err))
}

// seen reports whether the lock was known to be taken, while the call was queued in this process, and
// lately.
func (r *Redlock) seen(w *arbiter.Waiter[*hold]) bool {
	b := r.table.Blocked(w)
	return b.Taken && r.e.Clock.Now()-b.TakenAt < int64(backOff)
}

// Release ends one of the calls that h was granted to: see [engine.Member]. The last one waits
// until a majority has confirmed the release; the others continue in the background. It returns
// ErrLost if no majority had the lock until then.
func (r *Redlock) Release(ctx context.Context, h engine.Held, due bool) error {
	r.Refresh(h) // with the cause of the loss, if it is lost by now
	start, x := engine.Now(), r.table.Exit(&r.side, h.(*locked), due, lockerr.ErrExpired)
	if x.Outcome == arbiter.NotHeld {
		return engine.ErrNotDue
	}
	return r.unlocked(ctx, start, x, (*hold).release)
}

// ReleaseOf is Release of what o has locked, by an Unlock.
func (r *Redlock) ReleaseOf(ctx context.Context, o *arbiter.Owner) error {
	start, x := engine.Now(), r.table.ExitOwner(&r.side, o, lockerr.ErrExpired)
	if x.Outcome == arbiter.NotHeld {
		return r.NotHeld()
	}
	return r.unlocked(ctx, start, x, (*hold).release)
}

// NotHeld returns the error of an Unlock of which there is nothing to release.
func (r *Redlock) NotHeld() error {
	return lockerr.New("unlock", r.name, cmp.Or(r.err, lockerr.ErrNotHeld))
}

// ReleaseInBackground is Release without waiting for Redis.
func (r *Redlock) ReleaseInBackground(ctx context.Context, h engine.Held) {
	start, x := engine.Now(), r.table.Exit(&r.side, h.(*locked), false, lockerr.ErrExpired)
	if x.Outcome != arbiter.NotHeld {
		_ = r.unlocked(ctx, start, x, func(h *hold, _ context.Context) error { h.discard(); return nil })
	}
}

// unlocked follows up an unlock, which began at start.
func (r *Redlock) unlocked(
	ctx context.Context, start int64, x arbiter.Exit[*hold], release func(*hold, context.Context) error,
) (err error) {
	switch x.Outcome {
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
// no observer was told.
func (r *Redlock) giveBack(h *locked, due bool) {
	switch x := r.table.Exit(&r.side, h, due, lockerr.ErrExpired); x.Outcome {
	case arbiter.Expired:
		x.Lease.reportLost(x.Lost)
	case arbiter.Release:
		x.Lease.discard()
	}
}

// Refresh loses h if its deadline has passed: a process that was frozen may look before its
// watchdogs do.
func (r *Redlock) Refresh(h engine.Held) {
	if on := h.(*locked).Lease(); h.State() == arbiter.Live && on.left() <= 0 {
		on.lose(on.why())
	}
}

// DeadlineOf returns until when h is valid, if it is live.
func (r *Redlock) DeadlineOf(h engine.Held) (time.Time, bool) {
	if h.State() != arbiter.Live {
		return time.Time{}, false
	}
	return time.Now().Add(h.(*locked).Lease().left()), true
}

// TakenBy returns the Redlock itself, if h is live.
func (r *Redlock) TakenBy(h engine.Held) []engine.Taken {
	if r.Refresh(h); h.State() != arbiter.Live {
		return nil
	}
	return []engine.Taken{{Of: r.table, Key: r.side.Name(), Owner: h.(*locked).Owner}}
}

// Order puts Redlocks after the other locks of a key.
func (r *Redlock) Order() (key string, rank int) { return r.key, 2 }

// Parts returns the lock of each deployment. Redlocks over the same sessions are the same lock.
func (r *Redlock) Parts() (all []engine.Part) {
	for _, n := range r.nodes {
		part := n.Parts()[0]
		part.Family = "redlock " + r.side.Name()
		all = append(all, part)
	}
	return all
}

// Queued returns how many calls wait for another one of this process, for tests.
func (r *Redlock) Queued() int { return r.table.Waiting(r.side.Name(), arbiter.Write) }
