package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// A Redlock is a lock over several independent Redis deployments: it is held as long as
// a majority of them say so, and so survives the loss of a minority with all data. The
// algorithm is that of the Redis documentation ("Distributed Locks with Redis").
//
// Values come from [NewRedlock]; methods of the zero Redlock return an error. A Redlock
// must not be copied after first use, and is safe for concurrent use. It is a [Locker],
// re-entrant per owner; values of one name over the same sessions are the same lock.
//
// Lock asks all deployments at the same time, each for a bounded time, and counts only
// if a majority grants and the lease, less the time that took, less the drift of clocks,
// is not over. Otherwise it gives everything back and tries again after a random pause,
// or when it hears of an unlock. While it is held every deployment renews its part;
// a deployment that was missing, or lost its part, is asked again. Done closes when
// fewer than a majority are certain.
//
// It has no fencing token: the deployments count independently of each other. A server
// that restarts without its data, or whose clock jumps, may grant a second time; with a
// majority of such servers within one lease exclusion is lost.
type Redlock struct {
	name  string
	nodes []*node
	lease time.Duration // the shortest of the deployments'
	cfg   lockConfig
	err   error
	s     *Session // where calls of this process queue: one of the sessions, the same for all values
	h     arbiter.Handle[*redHold]
}

var _ Locker = (*Redlock)(nil)

// node is a Redlock's part on one deployment.
type node struct {
	*Mutex
	suspect atomic.Int64 // by the session's clock: until then it is not waited for
}

// suspicion is how long a deployment that did not answer in time is left out. By then
// the session's own look at its connection tells.
const suspicion = 2 * pingTimeout

// distrust has the deployment not waited for again for a while, or until it answers.
func (n *node) distrust() { n.suspect.Store(n.s.clock.now() + int64(suspicion)) }

// well reports whether the deployment is likely to answer.
func (n *node) well() bool {
	return n.s.clock.now() >= n.suspect.Load() && n.s.hub.up.Load() && !n.s.closed()
}

// NewRedlock returns a lock of the given name over the deployments of sessions: an odd
// number of them, three or more, that share nothing. Two survive the loss of none, and
// an even number of no more than the odd one below; they are allowed all the same. It
// sends nothing and cannot fail: no session, a nil one, or two on one deployment, and a
// bad name or option, are reported by the first call.
//
// The lease is the sessions' own (the shortest of them counts), or that of [WithLease].
func NewRedlock(sessions []*Session, name string, opts ...LockOption) *Redlock {
	r := &Redlock{name: name}
	if len(sessions) == 0 {
		r.err = fmt.Errorf("%w: a Redlock needs at least one session, better three or five", ErrOption)
	}
	places := make(map[string]bool)
	var ids []string
	for _, s := range sessions {
		if s == nil {
			r.err = fmt.Errorf("%w: a session of the Redlock is nil", ErrOption)
			continue
		}
		m := s.Mutex(name, opts...)
		if r.err == nil {
			r.err = m.cfg.err
		}
		if places[s.place] && r.err == nil {
			r.err = fmt.Errorf("%w: two sessions of the Redlock lead to the same Redis", ErrOption)
		}
		places[s.place] = true
		r.cfg = m.cfg
		lease := s.cfg.lease
		if m.cfg.lease > 0 {
			lease = m.cfg.lease
		}
		if r.lease == 0 || lease < r.lease {
			r.lease = lease
		}
		r.nodes = append(r.nodes, &node{Mutex: m})
		ids = append(ids, s.id)
		if r.s == nil || s.id < r.s.id {
			r.s = s
		}
	}
	if r.s != nil {
		slices.Sort(ids)
		r.h = r.s.reds.Handle(name + "\x00" + strings.Join(ids, " "))
	}
	return r
}

// Name returns the name of the lock.
func (r *Redlock) Name() string { return r.name }

func (r *Redlock) quorum() int { return len(r.nodes)/2 + 1 }

// bound is how long one deployment is waited for.
func (r *Redlock) bound() time.Duration {
	return min(max(r.lease/20, 20*time.Millisecond), time.Second)
}

// grace is how long one deployment is waited for by Unlock, which has nothing to lose
// but its caller's time: one that does not answer is not waited for the next time.
func (r *Redlock) grace() time.Duration {
	return max(r.bound(), min(r.lease/2, time.Second))
}

// validity returns what is left of a lease that took elapsed to acquire: the drift of
// the clocks is taken to be 1 % of the lease, and 2 ms for the grain of Redis's expiry.
func validity(lease, elapsed time.Duration) time.Duration {
	return lease - elapsed - lease/100 - 2*time.Millisecond
}

func (r *Redlock) usable(op string) error {
	if r == nil || r.nodes == nil && r.err == nil {
		return errZero
	}
	if r.err != nil {
		return failed(op, r.name, r.err)
	}
	return nil
}

// closed reports whether so many sessions are closed that the others are no majority.
func (r *Redlock) closed() bool {
	open := 0
	for _, n := range r.nodes {
		if !n.s.closed() {
			open++
		}
	}
	return open < r.quorum()
}

func (r *Redlock) ownSessions() (all []*Session) {
	for _, n := range r.nodes {
		all = append(all, n.s)
	}
	return all
}

// Lock locks r; see [Locker]. It rides out deployments that are down, also if they are a
// majority.
func (r *Redlock) Lock(ctx context.Context) error {
	_, err := r.lock(ctx, "lock", true)
	return err
}

// TryLock makes one attempt; see [Locker]. If so many deployments fail that no majority
// is left, it returns their errors.
func (r *Redlock) TryLock(ctx context.Context) (bool, error) {
	return r.lock(ctx, "try to lock", false)
}

func (r *Redlock) lock(ctx context.Context, op string, wait bool) (bool, error) {
	if err := r.usable(op); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, ctxFailed(op, r.name, ctx, nil)
	}
	t := r.s.reds
	w := t.Waiter(&r.h, ownerOf(ctx), r.cfg == lockConfig{})
	defer t.Free(w)
	switch t.Enter(w, wait) {
	case arbiter.Entered:
		return true, nil
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued:
		if h, err := r.queued(ctx, op, w); h != nil || err != nil {
			return h != nil, err
		}
	}
	h, err := r.acquire(ctx, op, wait)
	if h == nil {
		t.Quit(w)
		return false, err
	}
	t.Grant(w, h, 0)
	h.begin() // after the grant, so that an early loss finds the hold
	return true, nil
}

type redLocked = arbiter.Hold[*redHold]

// queued waits for the turn of a call among the goroutines of this process. It returns
// the hold if one has handed it over, and nothing if it is to ask now.
func (r *Redlock) queued(ctx context.Context, op string, w *arbiter.Waiter[*redHold]) (*redLocked, error) {
	t := r.s.reds
	for sessions := r.ownSessions(); ; {
		var err error
		switch {
		case await(ctx, w.C, sessions):
			return t.Role(w), nil
		case ctx.Err() != nil:
			err = ctxFailed(op, r.name, ctx, nil)
		case r.closed():
			err = failed(op, r.name, ErrClosed)
		default:
			continue
		}
		if h := t.Quit(w); h != nil && t.Return(&r.h, h) == arbiter.Release {
			h.Lease.discard()
			t.Released(r.h.Name(), h.Lease)
		}
		return nil, err
	}
}

// Unlock ends one Lock of r; see [Locker]. It waits for each deployment for a bounded
// time only; a release that is not confirmed by then goes on in the background, and
// ends at the latest with the lease. It returns an error if that is so for a majority.
func (r *Redlock) Unlock(ctx context.Context) error {
	const op = "unlock"
	if err := r.usable(op); err != nil {
		return err
	}
	o := ownerOf(ctx)
	h, outcome := r.s.reds.Exit(&r.h, o)
	var err error
	switch outcome {
	case arbiter.NotHeld:
		return failed(op, r.name, ErrNotHeld)
	case arbiter.WasLost:
		return failed(op, r.name, ErrLost)
	case arbiter.Expired:
		h.Lease.discard()
		return failed(op, r.name, ErrLost)
	case arbiter.Release:
		err = h.Lease.release(ctx)
		r.s.reds.Released(r.h.Name(), h.Lease)
	}
	if o != nil && h.Owner != o {
		return failed(op, r.name, ErrLost) // o's hold; h is the one whose unlock was taken for o's
	}
	return err
}

// last returns the latest hold, after a look whether it is late: a process that was
// frozen is told at once.
func (r *Redlock) last() *redLocked {
	if r == nil {
		return nil
	}
	h := r.h.Latest()
	settleRed(h)
	return h
}

func settleRed(h *redLocked) {
	if h != nil && h.State() == arbiter.Live && h.Lease.left() <= 0 {
		h.Lease.fail()
	}
}

// Done returns a channel that is closed when the latest hold taken through r ends: when
// fewer than a majority of the deployments are certain, or by Unlock; see [Locker].
func (r *Redlock) Done() <-chan struct{} {
	if h := r.last(); h != nil {
		return h.Done()
	}
	return arbiter.Closed
}

// Err tells whether the latest hold taken through r is held; see [Locker].
func (r *Redlock) Err() error {
	const op = "state of"
	h := r.last()
	if h == nil {
		return errors.Join(r.usable(op), failed(op, "", ErrNotHeld))
	}
	return stateErr(op, r.name, h.State())
}

// Deadline returns the time until which a majority of the deployments is certain as of
// now; see [Mutex.Deadline].
func (r *Redlock) Deadline() (time.Time, bool) {
	h := r.last()
	if h == nil || h.State() != arbiter.Live {
		return time.Time{}, false
	}
	return time.Now().Add(h.Lease.left()), true
}

// What a Redlock is as a member of a group.

func (r *Redlock) heldBy(o *arbiter.Owner) heldLock {
	if h := r.s.reds.HoldOf(&r.h, o); h != nil {
		return h
	}
	return nil
}

func (r *Redlock) settle(o *arbiter.Owner) { settleRed(r.s.reds.HoldOf(&r.h, o)) }

func (r *Redlock) abandon(o *arbiter.Owner) {
	h, outcome := r.s.reds.Exit(&r.h, o)
	switch outcome {
	case arbiter.Expired:
		h.Lease.discard()
	case arbiter.Release:
		h.Lease.discard()
		r.s.reds.Released(r.h.Name(), h.Lease)
	}
}
