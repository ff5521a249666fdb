package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/multilock"
)

// A Locker is a distributed lock. Every lock type of this package is one, and so is
// what [RWMutex.RLocker] returns. A Locker must not be copied after first use and is
// safe for concurrent use. Methods of nil and zero values return an error; a nil
// context panics.
//
// Who holds the lock is decided by the context. A context from [Session.NewContext]
// carries an owner: Lock and Unlock act for that owner, on which handle of the same kind
// and name ever, and Lock by the owner that holds the lock counts up without asking Redis.
// Under any other context each Lock is by a new owner, so goroutines exclude each other as
// with [sync.Mutex], and Unlock ends the latest hold taken through this very handle, also
// one of an owner with a context. Of readers, who may have several holds at the same time,
// it ends the one whose lease is over first, so that those that read on keep theirs; Done
// stays open until the last of them has unlocked, or theirs is lost.
//
// Use a new handle for each operation. Through one that several owners share, an Unlock
// without an owner that follows a failed Lock ends another's hold, and Done, Err,
// FencingToken and Deadline tell of another's.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It
	// rides out lost connections, failovers and restarts of Redis; other errors,
	// such as ErrNotLock, end it at once. If ctx ends, the error is for errors.Is both
	// ctx's error and its cause, and ErrTaken if somebody else had the lock. After an
	// error the lock is not held. What Redis may have granted to
	// the call is released in the background, after Lock has returned: others may find
	// the lock taken until then, or for up to a lease if Redis does not answer or the
	// process dies. ctx bounds the call and not the hold.
	Lock(ctx context.Context) error

	// TryLock makes one attempt and reports whether the lock is held now. It never
	// waits for the lock: taken by another, it is false without an error.
	TryLock(ctx context.Context) (bool, error)

	// Unlock ends one Lock; the last one releases the hold. It ignores the end of ctx, and
	// waits for Redis at most 2 s; after that the release goes on in the background, at
	// the latest until the lease has run out. It returns nil if the hold was certain until
	// Unlock was called, whether Redis has confirmed the release or not, ErrLost if it had
	// ended before, or ErrNotHeld if this owner holds nothing here. Unlock what was locked
	// even after a loss.
	Unlock(ctx context.Context) error

	// Done returns a channel that is closed when the latest hold taken through this
	// handle ends, by Unlock or by loss. Before the first it is closed.
	Done() <-chan struct{}

	// Err returns nil while the latest hold taken through this handle is held,
	// ErrLost once it is lost, and ErrNotHeld otherwise.
	Err() error
}

// A Mutex is a re-entrant mutual exclusion lock. It shares its key, and so excludes,
// with every Mutex, FairMutex and Redisson RLock of the same name.
//
// Handles come from [Session.Mutex]; methods of the zero Mutex return an error. A
// Mutex must not be copied after first use, and is safe for concurrent use. All
// handles of one session with the same name are the same lock.
//
// Among the goroutines of a session the lock is handed on in order of arrival,
// without asking Redis, for as long as the session's tenure lasts ([WithTenure]).
// Among processes it goes in order of arrival of those turns; see [FairMutex] for strict
// order of all calls.
type Mutex struct {
	_ noCopy
	l engine.Mutex
}

var _ Locker = (*Mutex)(nil)

// Mutex returns a lock of the given name. It sends nothing and cannot fail: a bad
// name or option is reported by the first call that would use it.
func (s *Session) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{l: s.engine().Mutex(name, lockConfigOf(opts))}
}

// Name returns the name of the lock.
func (m *Mutex) Name() string { return m.lock().Name() }

// Lock locks m; see [Locker] for what it waits for and what ctx means. With an owner
// in ctx that holds m already it counts up, at the cost of a few hundred nanoseconds.
func (m *Mutex) Lock(ctx context.Context) error { return on(ctx, m.lock()).Lock(ctx) }

// TryLock tries to lock m without waiting; see [Locker].
func (m *Mutex) TryLock(ctx context.Context) (bool, error) { return on(ctx, m.lock()).TryLock(ctx) }

// Unlock ends one Lock of m; see [Locker]. If goroutines of this process wait and
// the tenure is not spent, the next of them has the lock and nothing is sent.
func (m *Mutex) Unlock(ctx context.Context) error { return on(ctx, m.lock()).Unlock(ctx) }

// Done returns a channel that is closed when the latest hold taken through m ends;
// see [Locker]. It is closed by the local deadline of a hold that cannot be renewed,
// whether Redis answers or not.
func (m *Mutex) Done() <-chan struct{} { return m.lock().Done() }

// Err tells whether the latest hold taken through m is held; see [Locker].
func (m *Mutex) Err() error { return m.lock().Err() }

// FencingToken returns the fencing token of the latest hold taken through m, also
// after it was lost, and 0 if there is none. Of two holds of a lock the later one has
// the larger token: hand it to what the lock protects, and let that refuse tokens
// smaller than one it has seen. If m is shared, the latest hold may be another's: in Do
// use [Token].
func (m *Mutex) FencingToken() int64 { return m.lock().FencingToken() }

// Deadline returns the time until which the hold is certain as of now, whatever
// happens to Redis or the network. Renewals move it. It reports false if the latest
// hold taken through m has ended, or there was none.
func (m *Mutex) Deadline() (time.Time, bool) { return m.lock().Deadline() }

func (m *Mutex) engineLock() multilock.Locker { return &m.l }

// lock returns the lock of m, a zero one if m is nil.
func (m *Mutex) lock() *engine.Mutex {
	if m == nil {
		return new(engine.Mutex)
	}
	return &m.l
}
