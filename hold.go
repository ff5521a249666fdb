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

// A Hold is one acquisition of a lock, from Acquire or TryAcquire of any lock type. Its Unlock ends
// no other hold, and needs neither the lock value nor the owner's context, so any goroutine can
// call it.
//
// Under an owner ([Session.NewContext]) each Acquire returns its own Hold. The Holds of one lock
// share a lease and a token, and the last releases the lock.
//
// Unlock every Hold, even after a loss. (Do unlocks its own, and a Group's hold its members'.) A
// Hold must not be copied, and is safe for concurrent use. A nil *Hold behaves like one that has
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

// Deadline returns the time until which the hold is valid unless it is renewed: for a [Group] the
// earliest of its members, for a [Redlock] the time until which a majority is valid. It reports
// false after the end, and for a Group with a Locker of another package.
func (h *Hold) Deadline() (time.Time, bool) {
	if h.Err() != nil {
		return time.Time{}, false
	}
	return h.l.DeadlineOf(h.held)
}

// Members returns the holds of a [Group]'s members in the order of [NewGroup]: for a nested group
// its members' holds, for a Locker of another package nil. They end with the group's hold, not
// alone. Members is nil for other locks.
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

// Unlock ends this hold only, whatever owner ctx carries, and waits for Redis as Unlock of a
// [Locker] does. It returns nil, [ErrLost] if the hold was lost before, or [ErrNotHeld] after an
// earlier Unlock or Handoff. A hold from [Hold.Members] does not end, and returns [ErrOption].
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
// least 10 ms) after Redis has the ticket. Waiters keep their place. The hold's options
// ([WithFixedLease], [WithMaxHold], [WithMinHold], [WithNote]) end with it.
//
// A ticket contains the lock's name, works once, and is a secret: anyone with it and access to the
// same Redis gets the lock.
//
// Handoff blocks until Redis has answered, ctx or the session ends, or the hold is lost. It always
// ends the hold. After an error there is no ticket: the lock is released, in the background if
// Redis does not answer, or expires with its lease, or after d if Redis has the ticket. If the
// owner has other Holds of the lock, Handoff fails and ends only this one.
//
// The error is [ErrOption] if d is out of range or the lock is not a Mutex, ctx's error,
// [ErrClosed], [ErrNotHeld] if the hold had ended, or [ErrLost] with its cause. It is ErrLost and
// [ErrExpired] if the ticket expired before Redis answered.
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

// Eval runs a Lua script in Redis, atomically, and only if this hold has the lock at that moment.
// So a holder that was frozen beyond its lease cannot write. If the hold no longer has the lock,
// the script does not run, the hold is lost, and the error is [ErrLost] with its cause. An answer
// that comes after the local deadline is returned, although the hold is lost by then.
//
// The script gets keys and args as KEYS and ARGV. Keys are full names: the session's prefix is not
// added. In a cluster they must be in the lock's slot (the same hash tag), or the error is
// [ErrOption]. The result has the script's errors, and a nil reply, as rueidis returns them. Redis
// caches every script text: keep it constant, and put variable values into args.
//
// Eval blocks until Redis has answered, or ctx or the session ends: then the error is ctx's or
// [ErrClosed]. If the script was sent and no answer came, it is also [ErrUnavailable]: the script
// may have run, or may run later if this hold still has the lock. Eval does not send it again. If
// you do, make a second run harmless, for example by a request id that is stored with the change.
// While an answer is missing, Unlock does not pass the lock on in this process. If the owner has
// more Holds of the lock, the script may run until the last has ended.
//
// For readers, a [Group] and a [Redlock] Eval returns [ErrOption], after Unlock or Handoff
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

// Context returns a context for work under the hold. It ends with parent, by cancel, and when the
// hold is lost, with [ErrLost] and the reason as its cause; at once if the hold has ended. Under it
// [HoldOf] returns h, and Lock of the same lock without an owner returns [ErrDeadlock], unless both
// only read. Call cancel after the work. That does not end the hold, and Unlock does not end the
// context. Context starts no goroutine if parent is from package context.
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

// HoldOf returns the hold of the innermost [Do] or [Hold.Context] around ctx. It is nil outside of
// these, and in Do for a Locker of another package.
func HoldOf(ctx context.Context) *Hold {
	if s := acquire.ScopeOf(ctx); s != nil && s.Hold != nil {
		return s.Hold.(section).h
	}
	return nil
}

// Token returns the fencing token of the hold that [HoldOf] returns. It is 0 if that is nil, and
// for readers and a [Group].
func Token(ctx context.Context) int64 { return HoldOf(ctx).Token() }

// Adopt takes over the lock of a ticket from [Hold.Handoff], for the owner in ctx if there is one.
// Its [Hold] has a larger token, and a lease by opts and the session, which is renewed unless opts
// say otherwise. The session needs the prefix and the Redis of the session that made the ticket.
// Unlock releases the lock in Redis: the session neither keeps it ([WithKeep]) nor passes it on.
//
// Adopt never waits for the lock, only for Redis, as Lock does: until ctx ends or [WithWait] is
// over. The error is [ErrLost] if there is nothing to adopt: also [ErrExpired] if the ticket has
// expired, used or not, and before that [ErrGone] if it was used, or the lock was forced open or is
// gone from Redis. A text that is not a ticket, or one of another prefix, is [ErrOption], without a
// round trip. After an error of ctx or Redis the ticket may be used up; a lock that the call got is
// released in the background, or expires with its lease.
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
