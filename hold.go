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

// A Hold is one acquisition of a lock. Unlock each that Acquire, TryAcquire or [Session.Adopt]
// returned, even after a loss. Its Unlock ends no other hold, and any goroutine may call it, under
// any context.
//
// Each Acquire of an owner ([Session.NewContext]) returns its own Hold. Those of one lock share a
// lease and a token, and the last releases the lock.
//
// A Hold must not be copied, and is safe for concurrent use. A nil *Hold behaves like one that has
// ended.
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

// Name returns the name of the lock, or the names of a [Group]'s members.
func (h *Hold) Name() string {
	if h == nil {
		return ""
	}
	return h.l.Name()
}

// Token returns the fencing token, even after the end; 0 for readers and a [Group].
func (h *Hold) Token() int64 {
	if h == nil {
		return 0
	}
	return h.held.Fence()
}

// Slot returns the slot of a [Semaphore]'s permit, even after the end; -1 for other locks.
func (h *Hold) Slot() int {
	if h == nil {
		return -1
	}
	return acquire.SlotOf(h.held)
}

// Deadline returns the time until which the hold is valid unless it is renewed: of a [Group] the
// earliest of its members', of a [Redlock] that of a majority. It reports false after the end, and
// for a Group with a Locker of another package.
func (h *Hold) Deadline() (time.Time, bool) {
	if h.Err() != nil {
		return time.Time{}, false
	}
	return h.l.DeadlineOf(h.held)
}

// Members returns the holds of a [Group]'s members in the order of [NewGroup]: of a nested group
// its members', of a Locker of another package nil. Only the group's hold ends them: their Unlock
// and Handoff return [ErrOption]. For other locks it is nil.
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

// Unlock ends this hold, and waits for Redis as Unlock of a [Locker] does. It returns nil,
// [ErrLost] if the hold was lost before, or [ErrNotHeld] after an earlier Unlock or Handoff.
func (h *Hold) Unlock(ctx context.Context) error {
	if err := h.end("unlock"); err != nil {
		return err
	}
	err := h.l.Release(ctx, h.held, byHold)
	h.ended(err)
	return err
}

// Handoff ends the hold of a [Mutex] without unlocking it, and returns a ticket for
// [Session.Adopt]. The lock stays taken, without renewal, until the ticket is used, or for d (at
// least 10 ms) after Redis has the ticket. Waiters keep their place. The hold's [WithFixedLease],
// [WithMaxHold], [WithMinHold] and [WithNote] end with it.
//
// A ticket contains the lock's name, works once, and is a secret: anyone with it and access to the
// same Redis gets the lock.
//
// Handoff blocks until Redis has answered, ctx or the session ends, or the hold is lost. It always
// ends the hold. After an error there is no ticket: the lock is released, in the background if
// Redis does not answer, or expires with its lease, or after d if Redis has the ticket. The error
// is
//
//   - [ErrOption] if d is out of range or the lock is not a Mutex;
//   - [ErrNotHeld] if the hold had ended;
//   - [ErrLost] with its cause; also [ErrExpired] if the ticket expired before Redis answered;
//   - ctx's error, or [ErrClosed];
//   - another one if the owner has more Holds of the lock: these go on.
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

// Eval runs a Lua script in Redis, atomically, and only if this hold has the lock at that moment: a
// holder that was frozen beyond its lease cannot write. Else the hold is lost, and the error is
// [ErrLost] with its cause.
//
// keys and args are KEYS and ARGV. Keys are full names: the session's prefix is not added. In a
// cluster they must be in the lock's slot (the same hash tag), or the error is [ErrOption]. The
// script's errors, and a nil reply, come as from rueidis. Redis caches every script text: keep it
// constant, and vary args.
//
// Eval blocks until Redis has answered, or ctx or the session ends: then the error is ctx's or
// [ErrClosed]. If a script was sent and no answer came, it is also, or only, [ErrUnavailable]: the
// script may have run, or may run later while this hold, or another of its owner, has the lock.
// Eval does not send it again; if you do, make a second run harmless. An answer after the local
// deadline is returned, although the hold is lost.
//
// For readers, a [Group] and a [Redlock] Eval returns ErrOption, after Unlock or Handoff
// [ErrNotHeld].
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

// Done returns a channel that is closed when the hold ends, by Unlock, Handoff or loss.
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

// Err returns nil while the hold is held, and then, for good, [ErrLost] with its cause, or
// [ErrNotHeld] if Unlock or Handoff came first.
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

// Context returns a context for work under the hold, like that of [Do]'s function. It ends with
// parent, by cancel, and when the hold is lost, with [ErrLost] and the reason as its cause; at once
// if the hold has ended. Call cancel after the work: that does not end the hold, nor does Unlock
// end the context.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, w := h.work(parent)
	return ctx, func() { w.end(context.Canceled) }
}

// work is a section under a hold: the part between its context and the parent of that.
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

// section is the hold that a context is under.
type section struct{ h *Hold }

// Taken implements [acquire.Holds].
func (s section) Taken() []acquire.Taken {
	if s.h.isOver() {
		return nil
	}
	return s.h.l.TakenBy(s.h.held)
}

// HoldOf returns the hold of the innermost [Do] or [Hold.Context] around ctx: nil outside of these,
// and in Do for a Locker of another package.
func HoldOf(ctx context.Context) *Hold {
	if s := acquire.ScopeOf(ctx); s != nil && s.Hold != nil {
		return s.Hold.(section).h
	}
	return nil
}

// Token returns the fencing token of [HoldOf]'s hold: 0 without one, and for readers and a [Group].
func Token(ctx context.Context) int64 { return HoldOf(ctx).Token() }

// Adopt takes over the lock of a ticket from [Hold.Handoff], for the owner in ctx if there is one.
// The session needs the prefix and the Redis of the session that made the ticket. The [Hold] has a
// larger token, and a lease by opts and the session, which is renewed unless opts say otherwise;
// [WithKeep] has no effect.
//
// Adopt waits only for Redis, as Lock does, until ctx ends or [WithWait] is over. The error is
//
//   - [ErrLost] and [ErrExpired] if the ticket has expired, used or not;
//   - [ErrLost] and [ErrGone] if it was used, or the lock was forced open or is gone from Redis;
//   - [ErrOption], without a round trip, if it is not a ticket, or has another prefix.
//
// After an error of ctx or Redis the ticket may be used up; a lock that the call got is released in
// the background, or expires with its lease.
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
