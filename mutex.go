package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/wire"
)

// A Locker is a distributed lock. Every lock type of this package is one, and so is what
// [RWMutex.RLocker] returns. A Locker comes from a method of [Session] or from a New function, must
// not be copied, and is safe for concurrent use.
//
// Who holds the lock is decided by the context. A context from [Session.NewContext] carries an
// owner: Lock and Unlock under it act for that owner, through any value of the same kind and name
// in the session, and Lock by the owner that holds the lock counts up without asking Redis.
//
// Under any other context the owner is the value itself, the handle. It behaves as a [sync.Mutex]
// or a [sync.RWMutex] does: goroutines that use it exclude each other, nobody enters twice,
// and Unlock, by any goroutine, ends what was last taken through the handle, also by an owner. Readers through one handle
// share one hold, which counts them. After a loss, the first Unlock returns ErrLost, and until then Lock
// through the handle waits, and TryLock returns ErrLost.
//
// [Do] makes an owner for its own call. So goroutines that need to know about their own
// hold alone use Do, an owner, or a handle of their own; handles are cheap.
type Locker interface {
	// Lock blocks until the lock is held, ctx ends, or the session closes. It waits while
	// connections are lost, and during failovers and restarts of Redis; other errors,
	// such as ErrNotLock, end it at once. If ctx ends, the error is for errors.Is ctx's
	// error and its cause, and ErrTaken if somebody else had the lock. After an
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
// All handles of one session with the same name are the same lock.
//
// Among the goroutines of a session the lock is handed on in order of arrival,
// without asking Redis, for as long as the session's tenure lasts ([WithTenure]).
// Among processes it goes in order of arrival of those turns; see [FairMutex] for strict
// order of all calls.
type Mutex struct {
	_ noCopy
	l engine.Lock
}

var _ Locker = (*Mutex)(nil)

// Mutex returns a lock of the given name. It sends nothing and cannot fail: a bad
// name or option is reported by the first call that would use it.
func (s *Session) Mutex(name string, opts ...LockOption) *Mutex {
	m := new(Mutex)
	m.l.Init(s.e, wire.Plain, name, lockConfigOf(opts))
	return m
}

// Name returns the name of the lock.
func (m *Mutex) Name() string { return m.l.Name() }

// Lock locks m; see [Locker] for what it waits for and what ctx means. With an owner
// in ctx that holds m already it counts up, at the cost of a few hundred nanoseconds.
func (m *Mutex) Lock(ctx context.Context) error { return m.l.Lock(ctx) }

// TryLock tries to lock m without waiting; see [Locker].
func (m *Mutex) TryLock(ctx context.Context) (bool, error) { return m.l.TryLock(ctx) }

// Unlock ends one Lock of m; see [Locker]. If goroutines of this process wait and
// the tenure is not spent, the next of them has the lock and nothing is sent.
func (m *Mutex) Unlock(ctx context.Context) error { return m.l.Unlock(ctx) }

// Done returns a channel that is closed when the latest hold taken through m ends;
// see [Locker]. It is closed by the local deadline of a hold that cannot be renewed,
// whether Redis answers or not.
func (m *Mutex) Done() <-chan struct{} { return m.l.Done() }

// Err tells whether the latest hold taken through m is held; see [Locker].
func (m *Mutex) Err() error { return m.l.Err() }

// FencingToken returns the fencing token of the latest hold taken through m, also
// after it was lost, and 0 if there is none. Of two holds of a lock the later one has
// the larger token: hand it to what the lock protects, and let that refuse tokens
// smaller than one it has seen. If m is shared, the latest hold may be another's: in Do
// use [Token].
func (m *Mutex) FencingToken() int64 { return m.l.FencingToken() }

// Deadline returns the time until which the hold is certain as of now, whatever
// happens to Redis or the network. Renewals move it. It reports false if the latest
// hold taken through m has ended, or there was none.
func (m *Mutex) Deadline() (time.Time, bool) { return m.l.Deadline() }

func (m *Mutex) member() engine.Member { return &m.l }
