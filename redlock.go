package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/relock-go/relock/internal/arbiter"
)

// A Redlock is a lock over several independent Redis deployments: it is held as long as
// a majority of them say so, and so survives the loss of a minority with all data. The
// algorithm is that of the Redis documentation ("Distributed Locks with Redis").
//
// Values come from [NewRedlock]; methods of the zero Redlock return an error. A Redlock
// must not be copied after first use, and is safe for concurrent use. It is a [Locker],
// re-entrant per owner.
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
	lease time.Duration
	fixed bool
	err   error
	turn  *semaphore.Weighted // one goroutine of this value at a time

	mu      sync.Mutex // protects the following
	open    []*redHold // holds whose Unlock is outstanding, oldest first
	latest  *redHold
	changed chan struct{} // closed when open has shrunk
}

var _ Locker = (*Redlock)(nil)

// node is a Redlock's part on one deployment.
type node struct {
	*Mutex
	suspect atomic.Int64 // by the session's clock: until then it is not waited for
}

// distrust has the deployment not waited for again until it has answered a repair, or a
// while has passed.
func (n *node) distrust(lease time.Duration) {
	n.suspect.Store(n.s.clock.now() + int64(lease/3))
}

// NewRedlock returns a lock of the given name over the deployments of sessions: an odd
// number of them, three or more, that share nothing. Two survive the loss of none, and
// an even number of no more than the odd one below; they are allowed all the same. It
// sends nothing and cannot fail: no session, a nil one, or two on one deployment, and a
// bad name or option, are reported by the first call.
//
// The lease is the sessions' own (the shortest of them counts), or that of [WithLease].
func NewRedlock(sessions []*Session, name string, opts ...LockOption) *Redlock {
	r := &Redlock{name: name, turn: semaphore.NewWeighted(1), changed: make(chan struct{})}
	if len(sessions) == 0 {
		r.err = fmt.Errorf("%w: a Redlock needs at least one session, better three or five", ErrOption)
	}
	places := make(map[string]bool)
	for _, s := range sessions {
		if s == nil {
			r.err = fmt.Errorf("%w: a session of the Redlock is nil", ErrOption)
			continue
		}
		m := s.Mutex(name, opts...)
		if r.err == nil {
			r.err = m.err
		}
		if places[s.deployment()] && r.err == nil {
			r.err = fmt.Errorf("%w: two sessions of the Redlock lead to the same Redis", ErrOption)
		}
		places[s.deployment()] = true
		lease := s.cfg.lease
		if m.cfg.lease > 0 {
			lease, r.fixed = m.cfg.lease, true
		}
		if r.lease == 0 || lease < r.lease {
			r.lease = lease
		}
		r.nodes = append(r.nodes, &node{Mutex: m})
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

// validity returns what is left of a lease that took elapsed to acquire: the drift of
// the clocks is taken to be 1 % of the lease, and 2 ms for the grain of Redis's expiry.
func validity(lease, elapsed time.Duration) time.Duration {
	return lease - elapsed - lease/100 - 2*time.Millisecond
}

func (r *Redlock) usable(op string) error {
	if r == nil || r.turn == nil {
		return errZero
	}
	if r.err != nil {
		return failed(op, r.name, r.err)
	}
	return nil
}

// Lock locks r; see [Locker]. It rides out deployments that are down for as long as a
// majority is not.
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
	h := &redHold{r: r, stop: make(chan struct{}), parts: make([]part, len(r.nodes))}
	h.Owner = ownerOf(ctx)
	if h.Owner != nil && r.again(h.Owner) {
		return true, nil
	}
	if h.Owner == nil {
		if ok, err := r.afterLoss(ctx, op, wait); !ok {
			return false, err
		}
		h.anonymous, h.Owner = true, new(arbiter.Owner)
	}
	if !wait {
		if !r.turn.TryAcquire(1) {
			return false, nil
		}
	} else if r.turn.Acquire(ctx, 1) != nil {
		return false, ctxFailed(op, r.name, ctx, nil)
	}
	if ok, err := r.acquire(context.WithValue(ctx, ownerKey{}, h.Owner), op, h, wait); !ok {
		r.turn.Release(1)
		return false, err
	}
	h.OnEnd(func(arbiter.State) { r.turn.Release(1) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, h)
	r.latest = h
	return true, nil
}

// again counts up the live hold of an owner, if it has one.
func (r *Redlock) again(o *arbiter.Owner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.open {
		if h.Owner == o && h.State() == arbiter.Live {
			h.more++
			r.latest = h
			return true
		}
	}
	return false
}

// afterLoss waits while an anonymous hold of this value was lost and not yet unlocked,
// as Mutex does.
func (r *Redlock) afterLoss(ctx context.Context, op string, wait bool) (bool, error) {
	for {
		r.mu.Lock()
		blocked := slices.ContainsFunc(r.open, func(h *redHold) bool {
			return h.anonymous && h.State() == arbiter.Lost
		})
		changed := r.changed
		r.mu.Unlock()
		if !blocked || !wait {
			return !blocked, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctxFailed(op, r.name, ctx, nil)
		}
	}
}

// acquire makes rounds until one succeeds, or one if the call does not wait.
func (r *Redlock) acquire(ctx context.Context, op string, h *redHold, wait bool) (bool, error) {
	signal := make(chan struct{}, 1)
	var listeners []*listener
	defer func() {
		for _, l := range listeners {
			l.leave()
		}
	}()
	pause := backoff0
	for {
		ok, err := r.round(ctx, h)
		switch {
		case ok:
			h.begin()
			return true, nil
		case ctx.Err() != nil:
			return false, ctxFailed(op, r.name, ctx, err)
		case errors.Is(err, ErrClosed) || !wait:
			return false, err
		case listeners == nil:
			for _, n := range r.nodes {
				listeners = append(listeners, n.s.hub.watch(n.keys.channel, func() { wake(signal) }))
			}
		}
		timer := time.NewTimer(jitter(pause))
		select {
		case <-timer.C:
			pause = min(2*pause, time.Second)
		case <-signal:
			timer.Reset(jitter(stepMin)) // let the others hear of it, too, and not all at once
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			pause = backoff0
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// round asks the deployments once, at the same time. If that was not enough it gives
// back what it got; its error is theirs if so many failed that no majority was left.
func (r *Redlock) round(ctx context.Context, h *redHold) (bool, error) {
	asked := r.asked()
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, r.bound())
	defer cancel()
	errs := make([]error, len(r.nodes))
	var eg errgroup.Group
	for _, i := range asked[1:] {
		eg.Go(func() error { errs[i] = h.take(bounded, i); return nil })
	}
	errs[asked[0]] = h.take(bounded, asked[0])
	_ = eg.Wait() // each error is in errs

	bad := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		bad++
		if ctx.Err() == nil && (bounded.Err() != nil || transient(err)) {
			r.nodes[i].distrust(r.lease)
		}
	}
	got := h.count()
	if got >= r.quorum() && validity(r.lease, time.Since(start)) > 0 {
		return true, nil
	}
	h.giveBack()
	if len(asked)-bad < r.quorum() || got >= r.quorum() {
		if bad == 0 {
			errs[0] = errLate
		}
		return false, failed("lock", r.name, errs...)
	}
	return false, nil
}

// asked returns the deployments to ask: those that are not suspect, or all if the others
// are no majority.
func (r *Redlock) asked() []int {
	var well, all []int
	for i, n := range r.nodes {
		all = append(all, i)
		if n.s.clock.now() >= n.suspect.Load() {
			well = append(well, i)
		}
	}
	if len(well) < r.quorum() {
		return all
	}
	return well
}

// Unlock ends one Lock of r; see [Locker]. It waits for each deployment for a bounded
// time only; a release that is not confirmed by then goes on in the background, and
// ends at the latest with the lease. It returns an error if that is so for a majority.
func (r *Redlock) Unlock(ctx context.Context) error {
	const op = "unlock"
	if err := r.usable(op); err != nil {
		return err
	}
	h, last := r.exit(ownerOf(ctx))
	switch {
	case h == nil:
		return failed(op, r.name, ErrNotHeld)
	case !last && h.State() == arbiter.Lost:
		return failed(op, r.name, ErrLost)
	case !last:
		return nil
	}
	return h.unlock(ctx)
}

// exit finds the hold that an unlock is for, by the rules of Mutex, and reports whether
// it was its last one.
func (r *Redlock) exit(o *arbiter.Owner) (h *redHold, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := -1
	for i, h := range r.open {
		if o == nil && h.State() == arbiter.Lost {
			at = i
			break
		}
		if o == nil || !h.anonymous && h.Owner == o {
			at = i
		}
	}
	if at < 0 {
		return nil, false
	}
	h = r.open[at]
	if h.more > 0 {
		h.more--
		return h, false
	}
	r.open = slices.Delete(r.open, at, at+1)
	close(r.changed)
	r.changed = make(chan struct{})
	return h, true
}

func (r *Redlock) last() *redHold {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
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
	return h.deadline()
}
