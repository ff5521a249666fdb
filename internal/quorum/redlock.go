package quorum

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// A Redlock is a lock over several deployments, held while a majority of them holds it. It is
// safe for concurrent use. Values of one name over the same sessions are the same lock.
type Redlock struct {
	name     string
	key      string          // the least of the locks' keys, which depend on the sessions' prefixes
	nodes    []*acquire.Lock // on the deployments
	sessions []*acquire.Node
	lease    time.Duration // the shortest of the deployments'
	cfg      acquire.LockConfig
	err      error          // misuse, returned by every operation
	first    *acquire.Node  // the session with the least id; its clock is the lock's
	table    *local.Table   // that session's
	owned    local.Key      // in the table, and for owners
	observer event.Observer // those of the sessions
}

// New returns the lock of a name over the deployments of sessions. Its first call reports misuse:
// no session, two of one deployment, a bad name or option.
func New(sessions []*acquire.Node, name string, cfg acquire.LockConfig) *Redlock {
	r := &Redlock{name: name, cfg: cfg, table: nowhere}
	if len(sessions) == 0 {
		r.err = fmt.Errorf("%w: a Redlock needs at least one session, better three or five", lockerr.ErrOption)
	}
	var ids []string
	for _, n := range sessions {
		if n == nil {
			r.err = fmt.Errorf("%w: a Session of the Redlock is nil", lockerr.ErrOption)
			continue
		}
		l := new(acquire.Lock)
		l.Init(n, wire.Plain, name, cfg)
		r.err = cmp.Or(r.err, l.Invalid())
		if r.lease == 0 || l.Length() < r.lease {
			r.lease = l.Length()
		}
		if key, _ := l.Order(); r.key == "" || key < r.key {
			r.key = key
		}
		if r.first == nil || n.ID < r.first.ID {
			r.first, r.table = n, n.Redlocks
		}
		r.nodes, r.sessions, ids = append(r.nodes, l), append(r.sessions, n), append(ids, n.ID)
	}
	r.observer = acquire.ObserverOf(r.sessions...)
	slices.Sort(ids)
	r.owned = local.Key{Of: r.table, Name: name + "\x00" + strings.Join(ids, " ")}
	return r
}

// nowhere is the table of Redlocks without a session, which are never locked.
var nowhere = local.NewTable(0)

// Name returns the name of the lock.
func (r *Redlock) Name() string { return r.name }

// misuse returns what is wrong with the lock, nil if nothing is. Two sessions of one deployment are
// found once both have started.
func (r *Redlock) misuse() error {
	if r.err != nil {
		return r.err
	}
	for i := range r.sessions {
		if r.twice(i) {
			return errTwice
		}
	}
	return nil
}

var errTwice = fmt.Errorf("%w: two sessions of the Redlock lead to the same Redis", lockerr.ErrOption)

// twice reports whether another session is known to lead to the deployment of one.
func (r *Redlock) twice(i int) bool {
	s, d := r.sessions[i], r.sessions[i].Deployment()
	for j, other := range r.sessions {
		if i != j && (s == other || d != "" && d == other.Deployment()) {
			return true
		}
	}
	return false
}

func (r *Redlock) quorum() int { return len(r.nodes)/2 + 1 }

// closed reports whether the sessions that grant anything new are not a majority any more.
func (r *Redlock) closed() bool {
	open := slices.DeleteFunc(slices.Clone(r.sessions), (*acquire.Node).Drained)
	return len(open) < r.quorum()
}

func (r *Redlock) now() int64 { return r.first.Clock.Now() }

// Take acquires r: see [acquire.Member]. A call that waits does so for deployments that are down,
// even if they are a majority. If it makes one attempt and no majority answers, it returns their
// errors.
func (r *Redlock) Take(ctx context.Context, o *local.Owner, _ *local.Crowd, wait, due bool) (acquire.Held, error) {
	c := acquire.NewCall(ctx, r.observer, r.name, event.Redlock, "lock", wait)
	c.Due = due
	h, err := r.Acquire(ctx, o, &c)
	c.End(h != nil, err, func(h acquire.Held, due bool) { r.giveBack(h.(*local.Hold), due) })
	return h, err
}

// Acquire locks r for o on behalf of a call, which waits or makes one attempt.
func (r *Redlock) Acquire(ctx context.Context, o *local.Owner, c *acquire.Call) (acquire.Held, error) {
	switch err := r.misuse(); {
	case err != nil:
		return nil, lockerr.New(c.Op, r.name, err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(c.Op, r.name, ctx, nil)
	case c.Wait && r.waitsForItself(ctx, o):
		return nil, lockerr.New(c.Op, r.name, lockerr.ErrDeadlock)
	}
	ctx, stop := r.cfg.Bounded(ctx, c)
	defer stop()
	a := &attempt{Redlock: r, ctx: ctx, c: c, call: r.table.NewCall()}
	defer r.table.Free(a.call)
	a.call.Name, a.call.Owner, a.call.For = r.owned.Name, o, a
	a.call.Try, a.call.Due, a.call.Length = !c.Wait, c.Due, r.cfg.Takes(r.lease)
	t := acquire.Turn{Asker: a, Key: r.owned, Call: a.call, C: c}
	h, err := t.Take()
	switch {
	case h != nil:
		return h, nil
	case err == nil && r.closed():
		err = lockerr.New(c.Op, r.name, lockerr.ErrClosed)
	}
	return nil, err
}

// waitsForItself reports whether a Lock by o under ctx would wait for a section that ctx comes
// from.
func (r *Redlock) waitsForItself(ctx context.Context, o *local.Owner) bool {
	around := acquire.AroundAt(ctx, r.table, r.owned.Name)
	return slices.ContainsFunc(around, func(t acquire.Taken) bool { return o == nil || t.Hold.Owner != o })
}

// Release ends one of the calls that h was granted to: see [acquire.Member]. The last one waits
// until a majority has confirmed the release; the others continue in the background. It returns
// ErrLost if no majority had the lock until then.
func (r *Redlock) Release(ctx context.Context, h acquire.Held, due bool) error {
	return r.leave(ctx, h.(*local.Hold), due, (*hold).release)
}

// ReleaseOf is Release of what o has locked, by an Unlock.
func (r *Redlock) ReleaseOf(ctx context.Context, o *local.Owner) error {
	if h := o.Held(r.owned, false); h != nil {
		if err := r.Release(ctx, h, true); err != acquire.ErrNotDue {
			return err
		}
	}
	return r.NotHeld()
}

// NotHeld returns the error of an Unlock of which there is nothing to release.
func (r *Redlock) NotHeld() error {
	return lockerr.New("unlock", r.name, cmp.Or(r.misuse(), lockerr.ErrNotHeld))
}

// ReleaseInBackground is Release without waiting for Redis.
func (r *Redlock) ReleaseInBackground(ctx context.Context, h acquire.Held) {
	_ = r.leave(ctx, h.(*local.Hold), false, (*hold).drop)
}

// giveBack ends one call of h, which was granted to a call that does not want it, and of which
// no observer was told.
func (r *Redlock) giveBack(h *local.Hold, due bool) {
	if _, step, _ := r.end(h, due); step.Do == local.Release {
		_ = of(h).drop(context.Background())
	}
}

// leave ends one call of h.
func (r *Redlock) leave(ctx context.Context, h *local.Hold, due bool, release func(*hold, context.Context) error) error {
	start := acquire.Now()
	last, step, err := r.end(h, due)
	if err != nil || !last {
		return err
	}
	if step.Do == local.Release {
		err = release(of(h), ctx)
	}
	acquire.ReportUnlock(ctx, r.observer, h, true, r.name, event.Redlock, start, err)
	return err
}

// end ends one call of h, and h with the last one.
func (r *Redlock) end(h *local.Hold, due bool) (last bool, step local.Step, err error) {
	r.Refresh(h) // with the cause of the loss, if it is lost by now
	ok, last := h.Leave(due)
	if !ok {
		return false, step, acquire.ErrNotDue
	}
	if last {
		now := r.now()
		of(h).Deadline.Store(now + int64(of(h).left()))
		step = r.table.Unlock(r.owned.Name, h, !r.closed(), false, now)
		if h.Owner != nil {
			h.Owner.Left(r.owned, h)
		}
	}
	if h.State() == local.Lost {
		return last, step, lockerr.New("unlock", r.name, h.Cause())
	}
	return last, step, nil
}

// Refresh loses h if its deadline has passed: a process that was frozen may look before its
// watchdogs do.
func (r *Redlock) Refresh(h acquire.Held) {
	if on := of(h); h.State() == local.Live && on.left() <= 0 {
		on.lose(on.why())
	}
}

// DeadlineOf returns until when h is valid, if it is live.
func (r *Redlock) DeadlineOf(h acquire.Held) (time.Time, bool) {
	if h.State() != local.Live {
		return time.Time{}, false
	}
	return time.Now().Add(of(h).left()), true
}

// TakenBy returns the Redlock itself, if h is live.
func (r *Redlock) TakenBy(h acquire.Held) []acquire.Taken {
	if r.Refresh(h); h.State() != local.Live {
		return nil
	}
	return []acquire.Taken{{Of: r.table, Key: r.owned.Name, Hold: h.(*local.Hold)}}
}

// Order puts Redlocks after the other locks of a key.
func (r *Redlock) Order() (key string, rank int) { return r.key, 2 }

// Parts returns the lock of each deployment. Redlocks over the same sessions are the same lock.
func (r *Redlock) Parts() (all []acquire.Part) {
	for _, n := range r.nodes {
		part := n.Parts()[0]
		part.Family = "redlock " + r.owned.Name
		all = append(all, part)
	}
	return all
}

// Queued returns how many calls wait for another one of this process, for tests.
func (r *Redlock) Queued() int { return r.table.Waiting(r.owned.Name) }
