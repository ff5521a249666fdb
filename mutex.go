package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// A Locker is a distributed lock. Every lock type of this package is one, and so is
// what [RWMutex.RLocker] returns. A Locker must not be copied after first use and is
// safe for concurrent use.
//
// Who holds the lock is decided by the context. A context from [Session.NewContext]
// carries an owner: Lock and Unlock act for that owner, on which Locker value of the
// same kind and name ever, and Lock by the owner that holds the lock counts up
// without asking Redis. Under any other context each Lock is by a new owner, so
// goroutines exclude each other as with [sync.Mutex], and Unlock ends the latest hold
// that was taken through this very value.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It
	// rides out lost connections, failovers and restarts of Redis; other errors
	// end it at once. If ctx ends, the error is for errors.Is both ctx's error and
	// its cause. After an error the lock is not held, and nothing stays in Redis.
	// ctx bounds the call and not the hold.
	Lock(ctx context.Context) error

	// TryLock makes one attempt and reports whether the lock is held now. It never
	// waits for the lock: taken by another, it is false without an error.
	TryLock(ctx context.Context) (bool, error)

	// Unlock ends one Lock; the last one releases the hold. It ignores the end of
	// ctx, and blocks until Redis has confirmed or the lease has run out. It
	// returns nil, ErrLost if the hold had ended before or its release could not
	// be confirmed, or ErrNotHeld if this owner holds nothing here. Unlock what was
	// locked even after a loss.
	Unlock(ctx context.Context) error

	// Done returns a channel that is closed when the latest hold taken through this
	// value ends, by Unlock or by loss. Before the first it is closed.
	Done() <-chan struct{}

	// Err returns nil while the latest hold taken through this value is held,
	// ErrLost once it is lost, and ErrNotHeld otherwise.
	Err() error
}

// A Mutex is a re-entrant mutual exclusion lock. It shares its key, and so excludes,
// with every Mutex, FairMutex and Redisson RLock of the same name.
//
// Values come from [Session.Mutex]; methods of the zero Mutex return an error. A
// Mutex must not be copied after first use, and is safe for concurrent use. Several
// values of one session with the same name are the same lock.
//
// Among the goroutines of a session the lock is handed on in order of arrival,
// without asking Redis, for as long as the session's tenure lasts ([WithTenure]).
// Among processes there is no order, but none is left behind: see [FairMutex] for
// strict order.
type Mutex struct {
	lockBase
	h arbiter.Handle[*lease]
}

var _ Locker = (*Mutex)(nil)

// Mutex returns a lock of the given name. It sends nothing and cannot fail: a bad
// name or option is reported by the first call that would use it.
func (s *Session) Mutex(name string, opts ...LockOption) *Mutex {
	b := s.lockBase(plain, name, opts)
	return &Mutex{lockBase: b, h: s.table.Handle(b.keys.name)}
}

// Name returns the name of the lock.
func (m *Mutex) Name() string { return m.keys.name }

// Lock locks m; see [Locker] for what it waits for and what ctx means. With an owner
// in ctx that holds m already it counts up, at the cost of a few hundred nanoseconds.
func (m *Mutex) Lock(ctx context.Context) error {
	if o := ownerOf(ctx); o != nil && ctx.Err() == nil && m.h.Valid() && m.s.table.Reenter(&m.h, o) {
		return nil
	}
	_, err := m.lockWith(ctx, "lock", true, m.enter)
	return err
}

// TryLock tries to lock m without waiting; see [Locker].
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.lockWith(ctx, "try to lock", false, m.enter)
}

// enter takes m's turn among the goroutines of this process and then, unless the
// lock is handed over by one of them, in Redis.
func (m *Mutex) enter(ctx context.Context, o *arbiter.Owner, op string, wait bool, e *AcquireEvent) (bool, error) {
	s := m.s
	w := s.table.Waiter(&m.h, o, m.cfg.lease == 0)
	defer s.table.Free(w)
	switch s.table.Enter(w, wait) {
	case arbiter.Entered:
		e.again = true
		return true, nil
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued:
		e.Contended = true
		var h *hold
		select {
		case <-w.C:
			h = s.table.Role(w)
		case <-ctx.Done():
			m.quit(w)
			return false, ctxFailed(op, m.keys.name, ctx, nil)
		case <-s.closing:
			m.quit(w)
			return false, failed(op, m.keys.name, ErrClosed)
		}
		if h != nil {
			e.Handoff = h.Passed
			s.watch.passed(h, m.cfg.max)
			return true, nil
		}
	}
	l, contended, err := m.ask(ctx, plain, wait)
	e.Contended = e.Contended || contended
	if l == nil {
		s.table.Quit(w)
		return false, err
	}
	s.table.Grant(w, l, l.token)
	s.took(l, m.cfg.max) // after the grant, so that an early loss finds the hold
	return true, nil
}

// quit ends the waiting of a call, and gives back what it was granted meanwhile.
func (m *Mutex) quit(w *arbiter.Waiter[*lease]) {
	if h := m.s.table.Quit(w); h != nil && m.s.table.Return(&m.h, h) == arbiter.Release {
		m.s.releaseLater(h.Lease)
	}
}

// Unlock ends one Lock of m; see [Locker]. If goroutines of this process wait and
// the tenure is not spent, the next of them has the lock and nothing is sent.
func (m *Mutex) Unlock(ctx context.Context) error {
	const op = "unlock"
	if err := m.usable(op); err != nil {
		return err
	}
	s := m.s
	s.calls.Add(1) // also while closing: what it ends is gone then, and nothing is sent
	defer s.end()
	o := ownerOf(ctx)
	h, outcome := s.table.Exit(&m.h, o)
	return m.exit(ctx, op, o, h, outcome)
}

// Done returns a channel that is closed when the latest hold taken through m ends;
// see [Locker]. It is closed by the local deadline of a hold that cannot be renewed,
// whether Redis answers or not.
func (m *Mutex) Done() <-chan struct{} { return m.holdDone(m.h.Latest()) }

// Err tells whether the latest hold taken through m is held; see [Locker].
func (m *Mutex) Err() error { return m.holdErr(m.h.Latest()) }

// FencingToken returns the fencing token of the latest hold taken through m, also
// after it was lost, and 0 if there is none. Of two holds of a lock the later one has
// the larger token: hand it to what the lock protects, and let that refuse tokens
// smaller than one it has seen.
func (m *Mutex) FencingToken() int64 { return holdToken(m.h.Latest()) }

// Deadline returns the time until which the hold is certain as of now, whatever
// happens to Redis or the network. Renewals move it. It reports false if the latest
// hold taken through m has ended, or there was none.
func (m *Mutex) Deadline() (time.Time, bool) { return m.holdDeadline(m.h.Latest()) }
