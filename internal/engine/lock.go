package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Lock is a lock of one engine: an exclusive one, or one side of a read-write lock. Init makes it
// usable.
//
// A call of Lock passes through this file, and if it must wait through wait.go; that of a reader
// through read.go as well.
type Lock struct {
	e      *Engine
	kind   wire.Kind
	table  *table // of kind
	side   side
	keys   wire.Keys
	config LockConfig // its Lease is set, and at most MaxHold; its Err is also that of the name

	leaseMS string // config.Lease
}

// LockConfig configures a lock.
type LockConfig struct {
	Lease   time.Duration // length of its leases; 0: the engine's
	MaxHold time.Duration // a hold does not last longer; 0: no bound
	MinHold time.Duration // from the acquisition, for which nobody else gets the lock
	Keep    time.Duration // the session keeps the lock for so long after Unlock
	Wait    time.Duration // Lock does not wait longer; 0: no bound
	Permits int           // of a semaphore
	Err     error         // misuse of an option, returned by every operation
	Fixed   bool          // leases are not renewed
}

// Passable reports whether goroutines of this process may pass a hold among each other. A hold
// whose length is bounded is its owner's alone.
func (c *LockConfig) Passable() bool { return !c.Fixed && c.MaxHold == 0 && c.MinHold == 0 }

// Bounded returns a context for a call that does not outlast its wait.
func (c *LockConfig) Bounded(ctx context.Context, call *Call) (context.Context, context.CancelFunc) {
	if call.Try || c.Wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Wait)
}

// Init makes l the lock of a name. Its first call reports a bad name or option.
func (l *Lock) Init(e *Engine, k wire.Kind, name string, cfg LockConfig) {
	l.e, l.kind, l.table, l.keys, l.config = e, k, e.arbiters[k], wire.NewKeys(k, e.Config.Prefix+name), cfg
	if err := wire.CheckName(e.Config.Prefix, name); err != nil {
		l.config.Err = err
	}
	if cfg.Lease == 0 {
		l.config.Lease = e.Config.Lease
	}
	if cfg.MaxHold > 0 {
		l.config.Lease = min(l.config.Lease, cfg.MaxHold.Truncate(time.Millisecond))
	}
	if l.leaseMS = e.leaseMS; l.config.Lease != e.Config.Lease {
		l.leaseMS = wire.Millis(l.config.Lease)
	}
	side := arbiter.Write
	if k.Joins() || k.Slots() {
		side = arbiter.Read
	}
	l.table.Init(&l.side, l.keys.Name, side)
}

// Name returns the name of the lock that the user gave: its key without the prefix.
func (l *Lock) Name() string { return l.e.nameOf(l.keys.Name) }

// nameOf returns the name of the lock with that key.
func (e *Engine) nameOf(key string) string { return strings.TrimPrefix(key, e.Config.Prefix) }

// keyOf returns the key of the lock with that name.
func (e *Engine) keyOf(name string) string { return e.Config.Prefix + name }

// Engine returns the engine of the lock.
func (l *Lock) Engine() *Engine { return l.e }

// Invalid returns what is wrong with the lock's name or options, nil if nothing is.
func (l *Lock) Invalid() error { return l.config.Err }

// Length returns the length of the lock's leases.
func (l *Lock) Length() time.Duration { return l.config.Lease }

// shares reports whether the hold may be another goroutine's as well: a writer's one after the
// other, a reader's at the same time. Readers share one lease, of the engine's length.
func (l *Lock) shares() bool {
	return l.config.Passable() && l.kind.Passes() && (!l.kind.Joins() || l.config.Lease == l.e.Config.Lease)
}

var (
	kinds = [...]event.Kind{
		wire.Plain: event.Mutex, wire.Fair: event.Fair, wire.Write: event.Write, wire.Read: event.Read, wire.Semaphore: event.Semaphore,
	}
	ops = [...][2]string{
		wire.Plain: {"lock", "unlock"}, wire.Fair: {"lock", "unlock"}, wire.Write: {"lock", "unlock"}, wire.Read: {"rlock", "runlock"},
		wire.Semaphore: {"lock", "unlock"},
	}
)

// op returns the operation of a call for errors. A group's are told as if its members were locked
// by it.
func (l *Lock) op(c *Call) string {
	switch {
	case c.Op == opAdopt:
		return opAdopt
	case c.Try:
		return "try " + ops[l.kind][0]
	}
	return ops[l.kind][0]
}

var spareCalls = sync.Pool{New: func() any { return new(Call) }}

// Take acquires l: see [Member]. An owner that holds it enters again without asking Redis.
func (l *Lock) Take(ctx context.Context, o *arbiter.Owner, wait, due bool) (Held, error) {
	if o != nil && !l.kind.Joins() && l.config.Err == nil && ctx.Err() == nil {
		if h := l.table.Reenter(&l.side, o, due); h != nil {
			return h, nil
		}
	}
	c := spareCalls.Get().(*Call)
	*c = NewCall(ctx, l.e.Config.Observer, l.Name(), kinds[l.kind], ops[l.kind][0], wait)
	c.Due = due
	h, err := l.Acquire(ctx, o, c)
	c.End(h != nil, err, l.takeBack)
	*c = Call{}
	spareCalls.Put(c)
	return h, err
}

// takeBack ends one call that h was granted to, which its caller does not know.
func (l *Lock) takeBack(h Held, due bool) {
	l.e.track()
	defer l.e.End()
	l.giveBack(h.(*lease.Hold), due)
}

// tryMost is how long a TryLock with WithKeep waits for a lock that it finds taken: its keeper, if
// there is one, hears that it is wanted, and releases it.
const tryMost = 250 * time.Millisecond

// Acquire locks l for o, unless that is nil, on behalf of a call, which waits or makes one attempt.
func (l *Lock) Acquire(ctx context.Context, o *arbiter.Owner, c *Call) (Held, error) {
	acquire := l.acquire
	if !c.Wait && c.whole == nil && l.config.Keep > 0 {
		acquire = l.acquireSoon
	}
	h, err := acquire(ctx, o, c)
	if h == nil {
		return nil, err
	}
	return h, nil
}

// acquireSoon is acquire for a TryLock that waits, but only briefly.
func (l *Lock) acquireSoon(ctx context.Context, o *arbiter.Owner, c *Call) (*lease.Hold, error) {
	brief, stop := context.WithTimeout(ctx, transport.Patience+l.e.Config.AckWait)
	defer stop()
	c.Wait, c.found = true, func() { time.AfterFunc(tryMost, stop) }
	h, err := l.acquire(brief, o, c)
	if errors.Is(err, lockerr.ErrTaken) && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return nil, nil
	}
	return h, err
}

func (l *Lock) acquire(ctx context.Context, o *arbiter.Owner, c *Call) (h *lease.Hold, err error) {
	switch {
	case l.config.Err != nil:
		return nil, lockerr.New(l.op(c), l.Name(), l.config.Err)
	case ctx.Err() != nil:
		return nil, lockerr.Ended(l.op(c), l.Name(), ctx, nil)
	case !l.e.Begin():
		return nil, lockerr.New(l.op(c), l.Name(), lockerr.ErrClosed)
	}
	defer l.e.End()
	session := l.sessionFor(o)
	if session.Err() != nil {
		return nil, lockerr.New(l.op(c), l.Name(), lockerr.ErrClosed)
	}
	ctx, stop := l.config.Bounded(ctx, c)
	defer stop()
	if c.Wait && l.waitsForItself(ctx, o) {
		if c.Try {
			return nil, nil
		}
		return nil, lockerr.New(l.op(c), l.Name(), lockerr.ErrDeadlock)
	}
	err = errStartOver
	for err == errStartOver {
		h, err = l.enter(ctx, session, o, c)
	}
	return h, err
}

// sessionFor returns what ends a call by o with the session: Shutdown, or for an owner that has the
// lock, on either side, only its end.
func (l *Lock) sessionFor(o *arbiter.Owner) *transport.Context {
	if l.table.Holds(&l.side, o) {
		return l.e.callCtx
	}
	return l.e.lockCtx
}

// errStartOver: a call must start over. It was passed a hold that had expired by the time the call
// woke up, and has given it back; or while it asked Redis its owner has lost a hold, which must be
// unlocked first.
var errStartOver = errors.New("the call must start over")

// enter waits for the call's turn in this process and then, unless another goroutine lets it in,
// acquires the lock from Redis.
func (l *Lock) enter(ctx context.Context, session *transport.Context, o *arbiter.Owner, c *Call) (*lease.Hold, error) {
	w := l.table.Waiter(&l.side, o, l.shares(), int64(l.config.Lease))
	w.Due = c.Due
	if l.kind.Joins() {
		w.Inside = c.Wait && l.readAround(ctx)
	}
	if c.whole == nil { // a group gives back what it does not hold
		w.Keep = int64(l.config.Keep)
	}
	a := attempt{Lock: l, ctx: ctx, session: session, c: c, w: w}
	defer a.free()
	h, err := a.begin()
	a.over = true
	return h, err
}

// free takes the waiter back. If an observer has panicked, the call leaves nothing behind, here or
// in Redis.
func (a *attempt) free() {
	if !a.over {
		if h := a.table.Quit(a.w); h != nil {
			a.giveBack(h, a.c.Due)
		}
		for _, l := range []*lease.Lease{a.asking, a.w.Place} {
			if l != nil {
				a.e.cleaner.Add(l, true, nil)
			}
		}
	}
	a.table.Free(a.w)
}

func (a *attempt) begin() (*lease.Hold, error) {
	l, ctx, session, w, c := a.Lock, a.ctx, a.session, a.w, a.c
	switch l.table.Enter(w, c.Wait) {
	case arbiter.Entered:
		h := l.table.Answer(w)
		c.Entered(h)
		return h, nil
	case arbiter.Joined:
		h := l.table.Answer(w)
		c.Got(h, true)
		return h, nil
	case arbiter.Resumed:
		h := l.table.Answer(w)
		l.e.watchdog.Resume(h.Lease(), h.Since)
		c.Got(h, true)
		c.Kept()
		return h, nil
	case arbiter.Stale:
		w.Kept.Late.Store(true) // nobody has it: who waits, waits for Redis
		next := int64(0)
		if c.Wait && w.Passable {
			next = w.Class // it queues in the step of the release
		}
		l.e.track()
		go func(kept *lease.Lease) { // Close waits for it; the call may end before
			defer l.e.End()
			_ = l.e.release(context.WithoutCancel(ctx), kept, next)
		}(w.Kept)
		if err := a.awaitTurn(); err != nil {
			return nil, err
		}
		if h := l.table.Answer(w); h != nil {
			return l.enterWith(h, c)
		}
	case arbiter.Busy:
		return nil, nil
	case arbiter.Upgrade:
		return nil, lockerr.New(l.op(c), l.Name(), lockerr.ErrUpgrade)
	case arbiter.UnlockFirst:
		return nil, lockerr.New(l.op(c), l.Name(), lockerr.ErrUnlockFirst, l.side.LossOf(w.Owner))
	case arbiter.Queued:
		if c.Wait {
			c.Contend()
		}
		if err := a.awaitTurn(); err != nil {
			return nil, err
		}
		if h := l.table.Answer(w); h != nil {
			return l.enterWith(h, c)
		}
	}
	if a.io = transport.ForCaller(ctx, session); !c.Wait {
		var stop func()
		a.io, stop = timing.Within(ctx, transport.Patience+l.e.Config.AckWait)
		defer stop()
	}
	if l.kind.Joins() {
		return a.acquireRead()
	}
	return a.acquire()
}

// awaitTurn blocks until the arbiter answers. If the call ends first, it leaves the queue and
// returns why. A TryLock waits for the release of what this process kept, as long as an Unlock
// does.
func (a *attempt) awaitTurn() error {
	most := time.Duration(0)
	if !a.c.Wait {
		most = unlockMost
	}
	if turn, err := a.pause(most, nil); turn && err == nil {
		return nil
	}
	b := a.table.Blocked(a.w)
	a.taken, a.last = b.Refused, b.Err // the last answer to the call that asks Redis
	if !a.c.Wait {
		a.last = errUnconfirmed
	}
	err := a.ended()
	if err == nil {
		err = lockerr.New(a.op(a.c), a.Name(), lockerr.ErrUnavailable, a.last)
	}
	_, err = a.letIn(err)
	if a.w.Place != nil { // in the queue in Redis, which a release has taken for it
		a.e.cleaner.Add(a.w.Place, false, nil)
	}
	return err
}

// acquire acquires an exclusive lock, or a permit, from Redis.
func (a *attempt) acquire() (*lease.Hold, error) {
	place := a.w.Place
	a.w.Place = nil
	for ; ; place = nil {
		l, err := a.contend(place)
		if l == nil {
			return a.letIn(err)
		}
		h, used := a.table.Grant(a.w, l, l.Token)
		a.asking = nil
		if used {
			a.e.took(l, a.config.MaxHold)
			a.c.Got(h, false)
			return h, nil
		}
		a.e.releaseLater(l)
		if h != nil {
			return a.enterWith(h, a.c)
		}
		if a.side.MustUnlockFirst(a.w.Owner) {
			return a.letIn(errStartOver)
		}
		if !a.c.Wait {
			return a.letIn(nil)
		}
		// Another goroutine has a hold with a later token. If Redis has lost its data, and its
		// clock has stepped back, the next renewal tells.
		if done, err := a.pause(retakeAfter, nil); done || err != nil {
			return a.letIn(err)
		}
	}
}

const retakeAfter = 50 * time.Millisecond

// took registers a lease with the watchdog. It comes after the grant to a local hold, so that a
// loss finds the hold. The message that somebody has forced it open may have overtaken the reply
// that grants it: then a renewal tells.
func (e *Engine) took(l *lease.Lease, maxHold time.Duration) {
	e.watchdog.Add(l, maxHold)
	if e.forced.has(forcedID(l), l.Sent) {
		e.watchdog.RenewNow(l)
	}
	if l.Wanted || e.overtaken.has(forcedID(l), l.Sent) {
		e.recall(l)
	}
}

// letIn ends a call that acquired nothing from Redis: because of err, or because another call
// of its owner let it in.
//
// Grant and cancel may race: the arbiter may answer just before the call leaves the queue. Quit
// decides under the arbiter's mutex. It returns a hold granted until then, which is given back,
// and afterwards the arbiter cannot find the call any more.
func (a *attempt) letIn(err error) (*lease.Hold, error) {
	h := a.table.Quit(a.w)
	switch {
	case h == nil:
		return nil, err
	case err != nil:
		a.giveBack(h, a.c.Due)
		return nil, err
	}
	return a.enterWith(h, a.c)
}

// enterWith ends a call that another call let in with its hold h.
func (l *Lock) enterWith(h *lease.Hold, c *Call) (*lease.Hold, error) {
	if l.loseIfExpired(h) {
		l.giveBack(h, c.Due)
		return nil, errStartOver
	}
	c.Got(h, h.Passed || l.kind.Joins())
	return h, nil
}

// pass decides for the arbiter whether a lease may go to another goroutine, which wants one of
// that length, and returns its next token.
func (e *Engine) pass(l *lease.Lease, length, now int64) (token int64, ok bool) {
	if now-l.Turn >= int64(e.Config.Tenure) {
		return 0, false
	}
	return e.next(l, length, now)
}

// next returns the next token of l for a goroutine that wants a lease of that length, if it may
// take l over.
func (e *Engine) next(l *lease.Lease, length, now int64) (token int64, ok bool) {
	if !l.Renewed || int64(l.Length) != length || l.Token >= l.Top || !l.Fresh(now) || e.Draining() {
		return 0, false
	}
	l.Token++
	return l.Token, true
}
