package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
)

// A Locker is what a group needs of a lock of any type.
type Locker interface {
	Lock(ctx context.Context) error
	TryLock(ctx context.Context) (bool, error)
	Unlock(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
}

// Held is a hold of any lock type: what one owner has acquired, or one call without an owner. Each
// call that it was granted to is to release it once.
type Held interface {
	State() arbiter.State
	Cause() error // of the loss
	Done() <-chan struct{}
	OnLoss(f *func()) // f is called with no mutex locked
	Forget(f *func())

	Fence() int64 // the fencing token, 0 if there is none
	Due() bool    // an Unlock of the lock is to release it
	Shared() bool // other calls may be granted it as well

	// What observers are told of it.
	Reported(now int64) (lost error)
	Over(all bool) (calls []int64)
}

// A Member is a lock of this module.
type Member interface {
	Name() string // for people

	// Take acquires the lock, for o unless that is nil. It waits, or makes one attempt: then the
	// hold may be nil without an error, since the lock is taken. If due, an Unlock of the lock is
	// to release the hold.
	Take(ctx context.Context, o *arbiter.Owner, wait, due bool) (Held, error)

	// Release ends one of the calls that h, a hold of this lock, was granted to; if due, one that
	// an Unlock is to end. It returns ErrNotDue if there is none.
	Release(ctx context.Context, h Held, due bool) error

	// ReleaseOf is Release of what o has locked, by an Unlock.
	ReleaseOf(ctx context.Context, o *arbiter.Owner) error

	// NotHeld returns the error of an Unlock of which there is nothing to release.
	NotHeld() error

	// Refresh loses h if its deadline has passed: a process that was frozen may look before its
	// watchdog does.
	Refresh(h Held)

	// DeadlineOf returns until when h is valid, if it is live and that is known.
	DeadlineOf(h Held) (time.Time, bool)

	// TakenBy returns the locks that h holds now.
	TakenBy(h Held) []Taken
}

// A Leaf is a member that is no group: a group locks it as one of several.
type Leaf interface {
	Member

	// Acquire is Take on behalf of a call of a group, which waits or makes one attempt.
	Acquire(ctx context.Context, o *arbiter.Owner, c *Call) (Held, error)

	// ReleaseInBackground is Release without waiting for Redis. ctx is for observers.
	ReleaseInBackground(ctx context.Context, h Held)

	// Order returns the place in the order in which groups lock, the same in every process: by key,
	// then by rank.
	Order() (key string, rank int)

	Parts() []Part // the locks that it takes in engines
}

// A Part is a lock of one engine that a member takes.
type Part struct {
	Engine *Engine
	Key    string // in Redis: the name with the prefix of the engine
	Family string // the locks that one owner may hold together at this key
	Shared bool   // the read side
	Most   int    // how many owners may hold it at once, unless it is shared
}

// ErrNotDue: there is nothing for this Unlock to release.
var ErrNotDue = errors.New("nothing to release")

// Order puts readers after writers: an owner cannot upgrade.
func (l *Lock) Order() (key string, rank int) {
	if l.kind.Joins() {
		return l.keys.Name, 1
	}
	return l.keys.Name, 0
}

// Parts returns the lock itself.
func (l *Lock) Parts() []Part {
	return []Part{{l.e, l.keys.Name, l.kind.Family(), l.kind.Joins(), max(l.config.Permits, 1)}}
}

// Refresh loses h if its lease is not valid any more.
func (l *Lock) Refresh(h Held) { l.loseIfExpired(h.(*lease.Hold)) }

// DeadlineOf returns until when h is valid, if it is live.
func (l *Lock) DeadlineOf(h Held) (time.Time, bool) {
	if h.State() != arbiter.Live {
		return time.Time{}, false
	}
	left := h.(*lease.Hold).Lease().Deadline.Load() - l.e.Clock.Now()
	return time.Now().Add(time.Duration(left)), true
}

// TakenBy returns the lock itself, if h is live.
func (l *Lock) TakenBy(h Held) []Taken {
	held := h.(*lease.Hold)
	if l.loseIfExpired(held) || h.State() != arbiter.Live {
		return nil
	}
	return []Taken{{l.e, l.keys.Name, l.kind, held.Owner}}
}

// addNew returns s with v in it.
func addNew[T comparable](s []T, v T) []T {
	if slices.Contains(s, v) {
		return s
	}
	return append(s, v)
}

// Await waits for a signal on c, the end of ctx, or the draining of an engine that is open now,
// and reports whether it was the signal.
func Await(ctx context.Context, c <-chan struct{}, engines []*Engine) bool {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
	}
	for _, e := range engines {
		if !e.Draining() {
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(e.lockCtx.Done())})
		}
	}
	i, _, _ := reflect.Select(cases)
	return i == 0
}
