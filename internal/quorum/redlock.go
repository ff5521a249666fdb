package quorum

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
)

// A Redlock is a lock over several deployments, held while a majority of them holds it. It is
// safe for concurrent use. Values of one name over the same sessions are the same lock.
type Redlock struct {
	name   string
	key    string // the least of the locks' keys, which depend on the sessions' prefixes
	nodes  []*node
	lease  time.Duration // the shortest of the deployments'
	cfg    engine.LockConfig
	err    error          // misuse, returned by every operation
	e      *engine.Engine // of the session with the least id; its clock is the lock's
	queue  *Queue         // of that session
	handle arbiter.Handle[*hold]
	told   engine.Audience // the observers of the sessions
}

// Queue arbitrates the Redlocks of a process, by the session that it belongs to.
type Queue = arbiter.Table[*hold]

// A Session is an engine, and the queue that belongs to it.
type Session struct {
	Engine *engine.Engine
	Queue  *Queue
}

// locked is a hold as the queue knows it, and waiter a call.
type (
	locked = arbiter.Hold[*hold]
	waiter = arbiter.Waiter[*hold]
)

// NewQueue returns the queue of a session.
func NewQueue(e *engine.Engine) *Queue {
	return arbiter.NewTable(arbiter.Rules[*hold]{
		Now:     e.Clock.Now,
		Certain: func(h *hold, _ int64) bool { return h.left() > 0 },
		Expire:  func(_ string, h *hold) { h.expire() },
		Pass: func(h *hold, length, now int64) (int64, bool) {
			r := h.r
			return 0, r.cfg.Passable() && int64(r.lease) == length && now-h.since < int64(e.Config.Tenure) && h.left() >= r.lease/2 && !r.closed()
		},
	})
}

// New returns the lock of a name over the deployments of sessions. Its first call reports misuse:
// no session, a nil one, two of one deployment, a bad name or option.
func New(sessions []Session, name string, cfg engine.LockConfig) *Redlock {
	r := &Redlock{name: name, cfg: cfg}
	if len(sessions) == 0 {
		r.err = fmt.Errorf("%w: a Redlock needs at least one session, better three or five", lockerr.ErrOption)
	}
	deployments := make(map[string]bool)
	var ids []string
	for _, s := range sessions {
		if s.Engine == nil {
			r.err = fmt.Errorf("%w: a Session of the Redlock is nil or a zero value", lockerr.ErrOption)
			continue
		}
		r.add(s, deployments)
		ids = append(ids, s.Engine.ID())
	}
	if r.e != nil {
		slices.Sort(ids)
		r.handle = r.queue.Handle(name + "\x00" + strings.Join(ids, " "))
	}
	return r
}

// add adds the deployment of a session.
func (r *Redlock) add(s Session, deployments map[string]bool) {
	e := s.Engine
	m := e.Mutex(r.name, r.cfg)
	if r.err == nil {
		r.err = m.Invalid()
	}
	if deployments[e.Deployment()] && r.err == nil {
		r.err = fmt.Errorf("%w: two sessions of the Redlock lead to the same Redis", lockerr.ErrOption)
	}
	deployments[e.Deployment()] = true
	if r.lease == 0 || m.Length() < r.lease {
		r.lease = m.Length()
	}
	r.nodes = append(r.nodes, &node{Mutex: &m})
	if key, _ := m.Order(); r.key == "" || key < r.key {
		r.key = key
	}
	r.told = r.told.With(e)
	if r.e == nil || e.ID() < r.e.ID() {
		r.e, r.queue = e, s.Queue
	}
}

// Name returns the name of the lock.
func (r *Redlock) Name() string {
	if r == nil {
		return ""
	}
	return r.name
}

func (r *Redlock) quorum() int { return len(r.nodes)/2 + 1 }

// usable returns the error of every operation on a zero or invalid lock.
func (r *Redlock) usable(op string) error {
	if r == nil || r.nodes == nil && r.err == nil {
		return lockerr.New(op, "", lockerr.ErrZero)
	}
	if r.err != nil {
		return lockerr.New(op, r.name, r.err)
	}
	return nil
}

// closed reports whether the sessions that are open are no majority any more.
func (r *Redlock) closed() bool {
	open := 0
	for _, n := range r.nodes {
		if !n.Engine().Closed() {
			open++
		}
	}
	return open < r.quorum()
}

// engines returns those of all deployments.
func (r *Redlock) engines() (all []*engine.Engine) {
	for _, n := range r.nodes {
		all = append(all, n.Engine())
	}
	return all
}

// Lock locks r. It waits for deployments that are down, even if they are a majority.
func (r *Redlock) Lock(ctx context.Context) error {
	_, err := r.lock(ctx, "lock", true)
	return err
}

// TryLock makes one attempt. If no majority of the deployments answers, it returns their errors.
func (r *Redlock) TryLock(ctx context.Context) (bool, error) {
	return r.lock(ctx, "try lock", false)
}

func (r *Redlock) lock(ctx context.Context, op string, wait bool) (bool, error) {
	if r == nil || r.e == nil {
		return false, r.usable(op)
	}
	start := r.e.Clock.Now()
	c := call{op: op, wait: wait, start: start}
	c.told = r.told.NewCall(r.name, engine.KindRedlock, wait, start)
	ok, err := false, error(engine.ErrLateHold)
	switch {
	case r.usable(op) != nil:
		err = r.usable(op)
	case ctx.Err() != nil:
		err = lockerr.Ended(op, r.name, ctx, nil)
	case wait && r.WaitsForItself(ctx, arbiter.OwnerOf(ctx)):
		err = lockerr.New(op, r.name, lockerr.ErrDeadlock)
	}
	for err == engine.ErrLateHold {
		ok, err = r.enter(ctx, &c)
	}
	c.told.End(ctx, r.e.Clock.Now(), ok, err)
	return ok, err
}

// call is a call of Lock or TryLock.
type call struct {
	op    string
	wait  bool
	start int64            // by the clock of the Redlock
	told  *engine.Acquired // what observers are told; nil if there are none
}

// got notes the hold that the call got.
func (c *call) got(h *locked) {
	if c.told != nil {
		c.told.Hold, c.told.Handoff = h, h.Passed
	}
}

// enter waits for the call's turn in this process and then, unless another goroutine passes the
// lock on, acquires it from the deployments.
func (r *Redlock) enter(ctx context.Context, c *call) (bool, error) {
	w := r.queue.Waiter(&r.handle, arbiter.OwnerOf(ctx), r.cfg.Passable())
	w.Class = int64(r.lease)
	defer r.queue.Free(w)
	switch r.queue.Enter(w, arbiter.Write, c.wait) {
	case arbiter.Entered:
		return true, nil
	case arbiter.UnlockFirst:
		return false, lockerr.New(c.op, r.name, lockerr.ErrUnlockFirst)
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued:
		if h, err := r.queued(ctx, c, w); h != nil || err != nil {
			return h != nil, err
		}
	}
	h, err := r.acquire(ctx, c, w)
	if h == nil {
		r.queue.Quit(w)
		return false, err
	}
	granted, _ := r.queue.Grant(w, h, 0)
	c.got(granted)
	h.begin() // after the grant, so that a loss finds the hold
	return true, nil
}

// queued waits until a goroutine of this process passes a hold to w, or w must ask the
// deployments; then it returns nothing.
func (r *Redlock) queued(ctx context.Context, c *call, w *waiter) (*locked, error) {
	c.told.Contend(ctx)
	for engines := r.engines(); ; {
		var err error
		switch {
		case engine.Await(ctx, w.C, engines):
			h, _ := r.queue.Answer(w)
			if h != nil && h.Lease.left() <= 0 {
				h.Lease.expire()
				r.giveBack(h)
				return nil, engine.ErrLateHold
			}
			if h != nil {
				c.got(h)
			}
			return h, nil
		case ctx.Err() != nil:
			if r.handle.MustUnlockFirst(w.Owner) {
				err = lockerr.Ended(c.op, r.name, ctx, lockerr.ErrUnlockFirst)
				break
			}
			x := r.queue.Blocked(w)
			a := attempt{Redlock: r, call: c, ctx: ctx, refused: x.Held || x.Refused}
			err = a.ended(x.Err)
		case r.closed():
			err = lockerr.New(c.op, r.name, lockerr.ErrClosed)
		default:
			continue // one session was closed, the others are a majority
		}
		if h := r.queue.Quit(w); h != nil { // granted meanwhile; see engine's wait
			r.giveBack(h)
		}
		return nil, err
	}
}
