package acquire

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
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
	State() local.State
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
	// hold may be nil without an error, since the lock is taken. Readers of a crowd share a hold.
	// If due, an Unlock of the lock is to release it.
	Take(ctx context.Context, o *local.Owner, crowd *local.Crowd, wait, due bool) (Held, error)

	// Release ends one of the calls that h, a hold of this lock, was granted to; if due, one that
	// an Unlock is to end. It returns ErrNotDue if there is none.
	Release(ctx context.Context, h Held, due bool) error

	// ReleaseOf is Release of what o has locked, by an Unlock.
	ReleaseOf(ctx context.Context, o *local.Owner) error

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
	Acquire(ctx context.Context, o *local.Owner, c *Call) (Held, error)

	// ReleaseInBackground is Release without waiting for Redis. ctx is for observers.
	ReleaseInBackground(ctx context.Context, h Held)

	// Order returns the place in the order in which groups lock, the same in every process: by key,
	// then by rank.
	Order() (key string, rank int)

	Parts() []Part // the locks that it takes
}

// A Part is a lock of one deployment that a member takes.
type Part struct {
	Node   *Node
	Key    string // in Redis: the name with the prefix of the session
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
	return []Part{{l.n, l.keys.Name, l.kind.Family(), l.kind.Joins(), max(l.config.Permits, 1)}}
}

// Refresh loses h if its lease is not valid any more.
func (l *Lock) Refresh(h Held) { l.refresh(h.(*local.Hold), l.n.Clock.Now()) }

// DeadlineOf returns until when h is valid, if it is live.
func (l *Lock) DeadlineOf(h Held) (time.Time, bool) {
	if h.State() != local.Live {
		return time.Time{}, false
	}
	left := h.(*local.Hold).Lease.Deadline.Load() - l.n.Clock.Now()
	return time.Now().Add(time.Duration(left)), true
}

// TakenBy returns the lock itself, if h is live.
func (l *Lock) TakenBy(h Held) []Taken {
	held := h.(*local.Hold)
	if l.refresh(held, l.n.Clock.Now()) || h.State() != local.Live {
		return nil
	}
	return []Taken{{l.n, l.keys.Name, l.kind, held}}
}

// WantedOf returns a channel that is closed when somebody else waits for the lock of h while it is
// held. It is nil for readers, whose waiters are not told of, and for what is no lock of one
// deployment.
func WantedOf(h Held) <-chan struct{} {
	if h, ok := h.(*local.Hold); ok && !h.Reads {
		if _, of := h.Lease.For.(*lease.Lease); of {
			return h.Wanted()
		}
	}
	return nil
}

// SlotOf returns the slot of a hold, -1 if it is none of a semaphore.
func SlotOf(h Held) int {
	if h, ok := h.(*local.Hold); ok {
		if l, of := h.Lease.For.(*lease.Lease); of && l.Kind.Slots() {
			return l.Slot
		}
	}
	return -1
}

// addNew returns s with v in it.
func addNew[T comparable](s []T, v T) []T {
	if slices.Contains(s, v) {
		return s
	}
	return append(s, v)
}

// Await waits for one of several channels, the end of ctx, or the draining of a node that is open
// now.
func Await(ctx context.Context, nodes []*Node, after <-chan time.Time, signals ...<-chan struct{}) {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(after)},
	}
	for _, n := range nodes {
		if !n.Drained() {
			signals = append(signals, n.Draining.Done())
		}
	}
	for _, c := range signals {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	reflect.Select(cases)
}
