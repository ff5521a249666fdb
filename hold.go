package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/multilock"
	"github.com/relock-go/relock/internal/wire"
)

// A Hold is one acquisition of one lock, as Acquire and TryAcquire of every lock type return it. It
// ends by its own Unlock or Handoff, or when it is lost. That Unlock ends no other hold, and needs
// neither the context of an owner nor the lock value, unlike the Unlock of a [Locker], which ends
// one of those that were locked through the value. So a Hold may be passed to other goroutines,
// kept in a map, and unlocked wherever the work ends.
//
// Under an owner ([Session.NewContext]) each Acquire is a Hold of its own: those of one lock share
// its lease and token, and the lock is released with the last of them.
//
// A Hold must be unlocked, also after a loss. It must not be copied, and is safe for concurrent
// use. The methods of a nil *Hold are those of a hold that has ended: see [HoldOf]. Do unlocks its
// own hold, and a Group's hold those of its members.
type Hold struct {
	l      acquire.Member
	held   acquire.Held
	member bool // a Group has it, and ends it

	mu   sync.Mutex    // protects the following
	has  []*Hold       // of a Group's members, once they were asked for; they end with it
	over bool          // Unlock or Handoff was called
	err  error         // why it has ended; nil until that is known
	done chan struct{} // closed when it ends, if others share what is held; nil until it is needed
	shut bool          // done is closed
	lost func()        // shuts done when what is held is lost
}

var errMember = fmt.Errorf("%w: it is held by a group: end the group's hold", ErrOption)

// Name returns the name of the lock, of a [Group] the names of its members.
func (h *Hold) Name() string {
	if h == nil {
		return ""
	}
	return h.l.Name()
}

// Token returns the fencing token, also after the end; 0 for a reader and a [Group].
func (h *Hold) Token() int64 {
	if h == nil {
		return 0
	}
	return h.held.Fence()
}

// Slot returns the slot of a permit of a [Semaphore], also after the end: a number from 0 to n-1
// that no two holders have at the same time. It is -1 for other locks.
func (h *Hold) Slot() int {
	if h == nil {
		return -1
	}
	return acquire.SlotOf(h.held)
}

// Deadline returns the time until which the hold is valid as of now; renewals move it. That of a
// [Group] is the earliest of its members', that of a [Redlock] the one until which a majority is
// valid. It reports false after the end, and for a Group with a Locker of another package.
func (h *Hold) Deadline() (time.Time, bool) {
	if h.Err() != nil {
		return time.Time{}, false
	}
	return h.l.DeadlineOf(h.held)
}

// Members returns the holds of a [Group]'s members, in the order given to [NewGroup]: a member that
// is a group stands for its own, and a Locker of another package for a nil *Hold. They end with the
// group's hold, which alone can be unlocked. It is nil for other locks.
func (h *Hold) Members() []*Hold {
	if h == nil {
		return nil
	}
	g, ok := h.l.(*multilock.Group)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has == nil {
		for _, s := range g.SharesOf(h.held) {
			var m *Hold
			if s.Member != nil {
				m = &Hold{l: s.Member, held: s.Held, member: true, over: h.over}
			}
			h.has = append(h.has, m)
		}
	}
	return slices.Clone(h.has)
}

// Unlock ends this hold and no other, whatever owner ctx carries. It waits for Redis as the Unlock
// of a [Locker] does, and has the same errors: the first call returns nil, or ErrLost if the hold
// was lost before; later ones return ErrNotHeld. A hold that [Hold.Members] has returned is not
// ended, and the error is [ErrOption]: end the group's hold.
func (h *Hold) Unlock(ctx context.Context) error {
	if err := h.end("unlock"); err != nil {
		return err
	}
	err := h.l.Release(ctx, h.held, byHold)
	h.ended(err)
	return err
}

// Handoff ends the hold, which is one of a [Mutex], without unlocking, for another process to go on
// with it: it returns a ticket, a string, with which [Session.Adopt] has the lock. Until then the
// lock stays taken, and nothing renews it; if the ticket is not used within d the lock is free
// after that. Waiters keep their place. d is at least 10 ms and counts from when Redis has the
// ticket.
//
// A ticket is a secret: with it, and access to the same Redis, anybody gets the lock. Do not log
// it. It contains the name of the lock, and works once.
//
// Handoff blocks until Redis has answered, ctx or the session ends, or the hold is lost. It always
// ends the hold. If it returns an error there is no ticket, and the lock is released, in the
// background if Redis does not answer, or expires with its lease; what Redis may have of a ticket
// is free after d. If other Holds of its owner share the lock, it is not released: Handoff fails,
// and only this Hold has ended.
//
// The error is [ErrOption] if d is out of range or the lock is not a Mutex, ctx's error if that has
// ended, [ErrLost] with its cause if the hold was lost, also [ErrExpired] if the ticket was over
// before Redis answered, and [ErrNotHeld] if the hold had ended. Options of the hold
// ([WithFixedLease], [WithMaxHold], [WithMinHold], [WithNote]) end with it.
func (h *Hold) Handoff(ctx context.Context, d time.Duration) (ticket string, err error) {
	if err := h.end("hand off"); err != nil {
		return "", err
	}
	if l, ok := h.l.(*acquire.Lock); ok {
		ticket, err = l.HandOff(ctx, h.held, d)
	} else {
		err = lockerr.New("hand off", h.Name(), acquire.ErrNoMutex, h.l.Release(ctx, h.held, byHold))
	}
	h.ended(err)
	return ticket, err
}

// Eval runs a Lua script in Redis, atomically, only if this hold has the lock at that moment. So a
// holder that was frozen beyond its lease cannot write. If it does not have the lock any more, the
// script does not run, the error is [ErrLost] with its cause, and the hold is lost. If the answer
// comes after the local deadline, Eval returns it, although the hold is lost by then.
//
// The script finds its keys and arguments in KEYS and ARGV. The names of keys are Redis's, without
// the prefix of the session. In a cluster they must be in the slot of the lock (the same hash tag);
// else the error is [ErrOption]. The result has the script's own errors, and a nil reply, as rueidis
// returns them. Keep the text constant, and put what varies into args: Redis caches every text that
// it has seen.
//
// Eval blocks until Redis has answered, or ctx or the session ends: then the error is ctx's or
// [ErrClosed]. If the script was sent and no answer came, it is also [ErrUnavailable]: the script may
// have run, or may run later if this hold still has the lock then. Eval does not send it again. If
// you call it again, it may run twice: make that harmless, for instance by a request id that is
// stored with the change. While an answer is missing, Unlock releases the lock in Redis instead of
// passing it to a goroutine of this process that waits. If the owner has more Holds of the lock, the
// script may run until the last of them has ended.
//
// The holds of readers, a [Group] and a [Redlock] do not support Eval: the error is [ErrOption]. A
// hold that has ended, by its Unlock or Handoff, returns [ErrNotHeld].
func (h *Hold) Eval(ctx context.Context, script string, keys, args []string) rueidis.RedisResult {
	if h == nil || h.isOver() {
		return rueidis.NewErrorResult(lockerr.New("eval", h.Name(), ErrNotHeld))
	}
	l, ok := h.l.(*acquire.Lock)
	if !ok {
		return rueidis.NewErrorResult(lockerr.New("eval", h.Name(), acquire.ErrNoGuard))
	}
	return l.Eval(ctx, h.held, script, keys, args)
}

// end notes that the hold is to end now. It returns an error if it has ended already.
func (h *Hold) end(op string) error {
	if h == nil {
		return lockerr.New(op, "", ErrNotHeld)
	}
	if h.member {
		return lockerr.New(op, h.Name(), errMember)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return lockerr.New(op, h.Name(), ErrNotHeld)
	}
	h.endLocked()
	for _, m := range h.has {
		m.endPart()
	}
	return nil
}

// endPart ends what a group has of a member, of which the owner may have more.
func (h *Hold) endPart() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held.State() != local.Lost {
		h.err = lockerr.New("hold", h.Name(), ErrNotHeld)
	}
	h.endLocked()
}

// endLocked notes that the hold is to end now, and tells it. h.mu is locked.
func (h *Hold) endLocked() {
	h.over = true
	h.closeDone()
	if h.lost != nil {
		h.held.Forget(&h.lost)
	}
}

// isOver reports whether Unlock or Handoff was called.
func (h *Hold) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// ended notes the error of the call that has ended the hold.
func (h *Hold) ended(err error) {
	if !errors.Is(err, ErrLost) {
		err = lockerr.New("hold", h.Name(), ErrNotHeld)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// closeDone closes done if there is one. h.mu is locked.
func (h *Hold) closeDone() {
	if h.done != nil && !h.shut {
		h.shut = true
		close(h.done)
	}
}

// Done returns a channel that is closed when the hold ends: by its own Unlock or Handoff, or when
// it is lost.
func (h *Hold) Done() <-chan struct{} {
	if h == nil {
		return local.Closed
	}
	h.l.Refresh(h.held)
	if !h.held.Shared() {
		return h.held.Done()
	}
	h.mu.Lock()
	first := h.done == nil
	if first {
		h.done = make(chan struct{})
		h.lost = func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.closeDone()
		}
		if h.over {
			h.closeDone()
		}
	}
	h.mu.Unlock()
	if first {
		h.held.OnLoss(&h.lost)
	}
	return h.done
}

// Err returns nil while the hold is held, ErrLost with its cause once it is lost, and ErrNotHeld
// after Unlock or Handoff: whichever came first, for good.
func (h *Hold) Err() error {
	if h == nil {
		return lockerr.New("hold", "", ErrNotHeld)
	}
	h.mu.Lock()
	err, over := h.err, h.over
	h.mu.Unlock()
	if err != nil {
		return err
	}
	h.l.Refresh(h.held)
	switch s := h.held.State(); {
	case s == local.Lost:
		return lockerr.New("hold", h.Name(), h.held.Cause())
	case s == local.Ended || over:
		return lockerr.New("hold", h.Name(), ErrNotHeld)
	}
	return nil
}

// Context returns a context for work under the hold. It ends with parent, by cancel, and when the
// hold is lost: then its cause is [ErrLost] and why. Under it [HoldOf] returns h and [Token] its
// token, and a Lock of the same lock without an owner is [ErrDeadlock] (but readers do not wait for
// readers). It starts no goroutine under a parent made by package context. Call cancel when the
// work is over; it does not end the hold, nor does Unlock end the context. A context that is made
// after the end of the hold has ended as well.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, w := h.work(parent)
	return ctx, func() { w.end(context.Canceled) }
}

// work is a section under a hold: what is between its context and the parent of that.
type work struct {
	acquire.Scope
	h      *Hold
	cancel context.CancelCauseFunc
	lost   func() // cancels it, when h is lost
}

func (h *Hold) work(parent context.Context) (context.Context, *work) {
	w := &work{Scope: acquire.Scope{Context: parent}, h: h}
	if h != nil {
		w.Hold = section{h}
	}
	ctx, cancel := context.WithCancelCause(&w.Scope)
	w.cancel = cancel
	if err := h.Err(); err != nil { // first: what the owner has beside may be lost after the end
		cancel(err)
		return ctx, w
	}
	w.lost = func() {
		if !h.isOver() { // else the owner's other holds are lost, and h had ended before
			cancel(lockerr.New("hold", h.Name(), h.held.Cause()))
		}
	}
	h.held.OnLoss(&w.lost)
	return ctx, w
}

// end ends the context.
func (w *work) end(cause error) {
	if w.lost != nil {
		w.h.held.Forget(&w.lost)
	}
	w.cancel(cause)
}

// section is what a context knows of the hold that it is under.
type section struct{ h *Hold }

// Taken implements [acquire.Holds].
func (s section) Taken() []acquire.Taken {
	if s.h.isOver() {
		return nil
	}
	return s.h.l.TakenBy(s.h.held)
}

// HoldOf returns the hold that the innermost [Do] or [Hold.Context] around ctx is under. It is nil
// outside of these, and in Do for a Locker of another package: then its methods are those of a hold
// that has ended.
func HoldOf(ctx context.Context) *Hold {
	if s := acquire.ScopeOf(ctx); s != nil && s.Hold != nil {
		return s.Hold.(section).h
	}
	return nil
}

// Token returns the fencing token of [HoldOf]: of the hold that the innermost [Do] or
// [Hold.Context] around ctx is under. It is 0 outside of these, and for locks without tokens: the
// read side of an [RWMutex], a [Group], and a Locker of another package.
func Token(ctx context.Context) int64 { return HoldOf(ctx).Token() }

// Adopt takes over the lock that [Hold.Handoff] has left to the ticket, and returns a [Hold] of it:
// for the owner in ctx if there is one, with a larger token, and a lease as opts and the session
// say, which is renewed. The session needs the prefix and the Redis of the session that has handed
// the lock off.
//
// Unlock of that Hold releases the lock, for the first that waits in Redis: it is neither kept
// ([WithKeep]) nor passed on among the goroutines of the session.
//
// It never waits for the lock, only for Redis, as Lock does: while connections are lost, until ctx
// ends or [WithWait] is over. The error is [ErrLost] if there is nothing to adopt: it is also
// [ErrExpired] after the end of the ticket, whether it was used or not, and before that [ErrGone] if
// it was used, or if the lock was forced open or is gone with its Redis. For a text that is not a
// ticket, and a ticket of another prefix, it is [ErrOption], without a round trip. After an error of ctx or Redis the ticket may be used up: what this
// call may have got is released in the background, or expires with its lease. Safe for concurrent
// use.
func (s *Session) Adopt(ctx context.Context, ticket string, opts ...LockOption) (*Hold, error) {
	t, err := s.e.ReadTicket(ticket)
	if err != nil {
		return nil, err
	}
	l := s.lock(wire.Plain, t.Name, lockConfigOf(opts))
	held, err := l.Adopt(ctx, local.OwnerOf(ctx), t)
	if err != nil {
		return nil, err
	}
	return &Hold{l: l, held: held}, nil
}
