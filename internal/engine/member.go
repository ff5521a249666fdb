package engine

import (
	"context"
	"reflect"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/wire"
)

// A Locker is what a group needs of a lock of any type.
type Locker interface {
	Lock(ctx context.Context) error
	TryLock(ctx context.Context) (bool, error)
	Unlock(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
}

// A Member is a lock of this module, whose holds a Do knows.
type Member interface {
	Locker
	Name() string // for people

	// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
	HeldBy(o *arbiter.Owner) Held

	// DeadlineOf returns until when h, a hold of the lock, is certain, if it is live and that is known.
	DeadlineOf(h Held) (time.Time, bool)

	// Taken returns the parts with a key that h, a hold of the lock, has now.
	Taken(h Held, key string) []Part
}

// A Leaf is a member that is no group: a group locks it as one of several.
type Leaf interface {
	Member

	// Acquire locks it for o, who is in ctx, on behalf of a call, which waits or makes one attempt.
	Acquire(ctx context.Context, o *arbiter.Owner, c *Call) (bool, error)

	// ReleaseInBackground ends one Lock of o without waiting for Redis. ctx is for observers.
	ReleaseInBackground(ctx context.Context, o *arbiter.Owner)

	// Order returns the place in the order in which groups lock, the same in every process: by key, then by rank.
	Order() (key string, rank int)

	Parts() []Part // the locks that it takes in engines

	// WaitsForItself reports whether Lock by o under ctx would wait for a Do that ctx comes from.
	WaitsForItself(ctx context.Context, o *arbiter.Owner) bool
}

// A Part is a lock of one engine that a member takes.
type Part struct {
	Engine *Engine
	Key    string // in Redis: the name with the prefix of the engine
	Family string // the locks that one owner may hold together at this key
	Shared bool   // the read side
	Most   int    // how many owners may hold it at once, unless it is shared
}

// Held is a hold of any lock type.
type Held interface {
	OnEnd(f *func(arbiter.State))
	Forget(f *func(arbiter.State))
	Done() <-chan struct{}
	State() arbiter.State
	Cause() error // of the loss
	Fence() int64 // the fencing token, 0 if there is none

	// What observers are told of it.
	Reported(now int64) (lost error)
	Over(all bool) (calls []int64)
}

// Order puts readers after writers: an owner cannot upgrade.
func (l *Lock) Order() (key string, rank int) {
	if l.kind == wire.Read {
		return l.keys.Name, 1
	}
	return l.keys.Name, 0
}

// Parts returns the lock itself.
func (l *Lock) Parts() []Part { return []Part{l.part()} }

func (l *Lock) part() Part {
	return Part{l.e, l.keys.Name, families[l.kind], l.kind == wire.Read, max(l.config.Permits, 1)}
}

const semaphores = "semaphore"

var families = [...]string{wire.Plain: "mutex", wire.Fair: "fair", wire.Write: "rw", wire.Read: "rw", wire.Semaphore: semaphores}

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (l *Lock) HeldBy(o *arbiter.Owner) Held {
	if h := l.refresh(l.table.Newest(&l.handle, o)); h != nil {
		return h
	}
	return nil
}

// DeadlineOf returns until when h is certain, if it is live.
func (l *Lock) DeadlineOf(h Held) (time.Time, bool) {
	if h.State() != arbiter.Live {
		return time.Time{}, false
	}
	left := h.(*lease.Hold).Lease().Deadline.Load() - l.e.Clock.Now()
	return time.Now().Add(time.Duration(left)), true
}

// Taken returns the lock itself, if it has that key and h is live.
func (l *Lock) Taken(h Held, key string) []Part {
	if l.keys.Name != key || l.loseIfExpired(h.(*lease.Hold)) || h.State() != arbiter.Live {
		return nil
	}
	return l.Parts()
}

// WaitsForItself reports whether Lock by o under ctx would wait for a Do that ctx comes from.
func (l *Lock) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	return ScopeOf(ctx) != nil && l.part().WaitsForItself(ctx, o)
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
