package engine

import (
	"context"
	"reflect"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/wire"
)

// A Member is a lock of this module as part of a group.
type Member interface {
	Lock(ctx context.Context) error
	TryLock(ctx context.Context) (bool, error)
	Unlock(ctx context.Context) error
	Done() <-chan struct{}

	// Order returns the place in the order in which groups lock, the same in every process:
	// by key, then by rank. An empty key has no place.
	Order() (key string, rank int)

	// Engines returns the engines that must be open for the lock to be acquired.
	Engines() []*Engine

	// Parts returns the locks it takes in engines.
	Parts() []Part

	// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
	HeldBy(o *arbiter.Owner) Held

	// DeadlineOf returns until when h, a hold of the lock, is certain, if it is live and that is
	// known.
	DeadlineOf(h Held) (time.Time, bool)

	// Taken returns the parts with a key that h, a hold of the lock, has now.
	Taken(h Held, key string) []Part

	// WaitsForItself reports whether Lock by o under ctx would wait for a Do that ctx comes from.
	WaitsForItself(ctx context.Context, o *arbiter.Owner) bool

	// ExpireIfDue loses the hold of o if its deadline has passed.
	ExpireIfDue(o *arbiter.Owner)

	// ReleaseInBackground ends one Lock of o without waiting for Redis. ctx is for observers.
	ReleaseInBackground(ctx context.Context, o *arbiter.Owner)

	// Remaining bounds how long the live hold of o goes on. It is lease.Forever if that is
	// unknown, or o can have only one hold at a time.
	Remaining(o *arbiter.Owner) time.Duration
}

// A Part is a lock of one engine that a member takes.
type Part struct {
	Engine *Engine
	Name   string
	Key    string // in Redis: the name with the prefix of the engine
	Family string // the locks that one owner may hold together at this key
	Shared bool   // the read side
}

// Held is a hold of any lock type.
type Held interface {
	OnEnd(f *func(arbiter.State))
	Forget(f *func(arbiter.State))
	Done() <-chan struct{}
	State() arbiter.State
	Fence() int64 // the fencing token, 0 if there is none
	Reported
}

// Reported is what observers know of a hold; see arbiter.
type Reported interface {
	Acquired(now int64) (lost error)
	Released() (calls []int64)
	LossReported(cause error) (calls []int64, after []*func(cause error))
	Cause() error
	AfterLoss(f *func(cause error))
	ForgetLoss(f *func(cause error))
}

// Order puts readers after writers: an owner cannot upgrade.
func (b *base) Order() (key string, rank int) { return b.keys.Name, int(b.side()) }

// Engines returns the engine of the lock.
func (b *base) Engines() []*Engine {
	if b.e == nil {
		return nil
	}
	return []*Engine{b.e}
}

// Parts returns the lock itself.
func (b *base) Parts() []Part { return []Part{b.part()} }

func (b *base) part() Part {
	return Part{b.e, b.Name(), b.keys.Name, families[b.kind], b.kind == wire.Read}
}

var families = [...]string{wire.Plain: "mutex", wire.Fair: "fair", wire.Write: "rw", wire.Read: "rw"}

// HeldBy returns the hold of o that awaits its unlock, live or lost; nil if there is none.
func (b *base) HeldBy(o *arbiter.Owner) Held {
	b.e.watchdog.Watched()
	if h := b.arb.Newest(&b.handle, o, b.side()); h != nil {
		return h
	}
	return nil
}

// DeadlineOf returns until when h is certain, if it is live.
func (b *base) DeadlineOf(h Held) (time.Time, bool) {
	if h.State() != arbiter.Live {
		return time.Time{}, false
	}
	return b.e.Clock.Wall(h.(*lease.Hold).Lease.Deadline.Load()), true
}

// Taken returns the lock itself, if it has that key and h is live.
func (b *base) Taken(h Held, key string) []Part {
	if b.keys.Name != key {
		return nil
	}
	b.expireIfDue(h.(*lease.Hold))
	if h.State() != arbiter.Live {
		return nil
	}
	return b.Parts()
}

// WaitsForItself reports whether Lock by o under ctx would wait for a Do that ctx comes from.
func (b *base) WaitsForItself(ctx context.Context, o *arbiter.Owner) bool {
	return ScopeOf(ctx) != nil && b.part().waitsForItself(ctx, o)
}

// ExpireIfDue loses the hold of o if its deadline has passed.
func (b *base) ExpireIfDue(o *arbiter.Owner) {
	if h := b.HoldOf(o); h != nil {
		b.expireIfDue(h)
	}
}

// Remaining is unbounded: o has one hold at a time.
func (b *base) Remaining(*arbiter.Owner) time.Duration { return time.Duration(lease.Forever) }

// Await waits for a signal on c, the end of ctx, or the closing of an engine that is open now,
// and reports whether it was the signal.
func Await(ctx context.Context, c <-chan struct{}, engines []*Engine) bool {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
	}
	for _, e := range engines {
		if !e.Closed() {
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(e.closing)})
		}
	}
	i, _, _ := reflect.Select(cases)
	return i == 0
}
