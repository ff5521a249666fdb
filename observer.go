package relock

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
)

// An Observer receives events of the locks of a session, for metrics, traces and logs; see
// [WithObserver], [Observers] and [SlogObserver]. It is called synchronously, from several
// goroutines at once, on the path of the operation it reports: it must be safe for concurrent
// use and must not block, nor call back into the session. Embed [NopObserver] to stay
// compatible when events are added.
//
// ctx is the context of the call that the event is about, so that an observer finds the span in
// it. It is not kept. What relock does by itself, such as getting back a deployment of a
// [Redlock], has a context without values.
//
// Every Acquired with Held is followed by one Released or one Lost, and every Waiting by one
// Acquired with Waited. So the difference of their numbers is how many locks are held, and how many calls
// wait. Locking again what the owner already holds, and all unlocks but the last, are no events.
//
// A [Group] and a [Redlock] report as themselves, and their members report as well: a Redlock
// over three deployments makes one event of [KindRedlock] and up to three of [KindMutex] for each
// round. Do not add up these two kinds with the others. An observer that several of their
// sessions have receives their events once; it is recognized by ==, so let it be a pointer.
type Observer interface {
	// Waiting: a Lock has found the lock taken, by this process or another, and waits now. It is
	// called once for each call, whose end is the next event.
	Waiting(ctx context.Context, e WaitEvent)

	// Acquired: a Lock or TryLock has ended, with the lock, without it, or with an error.
	Acquired(ctx context.Context, e AcquireEvent)

	// Released: a hold was ended by its last Unlock.
	Released(ctx context.Context, e ReleaseEvent)

	// Lost: a hold has ended before its last Unlock, or its last Unlock returns [ErrLost].
	Lost(e LostEvent)

	// Renewed: a batch of leases was renewed, or could not be.
	Renewed(e RenewEvent)
}

// Kind is the kind of a lock, or the side of one, that an event is about.
type Kind uint8

const (
	KindMutex   = Kind(engine.KindMutex)   // [Mutex]
	KindFair    = Kind(engine.KindFair)    // [FairMutex]
	KindRead    = Kind(engine.KindRead)    // the read side of an [RWMutex]
	KindWrite   = Kind(engine.KindWrite)   // its write side
	KindGroup   = Kind(engine.KindGroup)   // [Group]
	KindRedlock = Kind(engine.KindRedlock) // [Redlock]
)

var kindNames = [...]string{
	KindMutex: "mutex", KindFair: "fair", KindRead: "read", KindWrite: "write", KindGroup: "group", KindRedlock: "redlock",
}

// String returns "mutex", "fair", "read", "write", "group" or "redlock".
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindNames[k]
}

// WaitEvent reports the start of a wait.
type WaitEvent struct {
	Name string // of the lock; of a Group those of its members, in the order in which it locks them
	Kind Kind
}

// AcquireEvent reports the end of a Lock or TryLock.
type AcquireEvent struct {
	Name      string // see WaitEvent
	Kind      Kind
	Held      bool          // the lock is held; without that and Err, a TryLock found it taken
	Wait      time.Duration // from the call to its end
	Contended bool          // the lock was found taken
	Waited    bool          // Waiting was reported
	Handoff   bool          // it came from a goroutine of this process, without asking Redis
	Token     int64         // fencing token; 0 if there is none
	Err       error         // what the call returns
}

// ReleaseEvent reports the end of a hold by its last Unlock.
type ReleaseEvent struct {
	Name string // see WaitEvent
	Kind Kind
	Held time.Duration // from the end of Lock to the call of Unlock
	Err  error         // why Redis has not confirmed the release; it goes on in the background
}

// LostEvent reports the loss of a hold.
type LostEvent struct {
	Name  string // see WaitEvent
	Kind  Kind
	Held  time.Duration // from the end of Lock to the loss
	Cause error         // ErrClosed, or one whose text is one of a few and names no lock
}

// RenewEvent reports one round of renewals, in a cluster of one node.
type RenewEvent struct {
	Holds    int           // how many were due
	Duration time.Duration // round trip
	Err      error         // first error, nil if there was none
}

// NopObserver ignores every event.
type NopObserver struct{}

func (NopObserver) Waiting(context.Context, WaitEvent)     {}
func (NopObserver) Acquired(context.Context, AcquireEvent) {}
func (NopObserver) Released(context.Context, ReleaseEvent) {}
func (NopObserver) Lost(LostEvent)                         {}
func (NopObserver) Renewed(RenewEvent)                     {}

// Observers returns an observer that passes every event to each of these, in this order. Nil
// ones are skipped.
func Observers(o ...Observer) Observer {
	o = slices.DeleteFunc(slices.Clone(o), func(o Observer) bool { return isNil(o) })
	switch len(o) {
	case 0:
		return NopObserver{}
	case 1:
		return o[0]
	}
	return &observers{o}
}

// observers is a pointer so that it can be compared.
type observers struct{ all []Observer }

func (o *observers) Waiting(ctx context.Context, e WaitEvent) {
	for _, o := range o.all {
		o.Waiting(ctx, e)
	}
}

func (o *observers) Acquired(ctx context.Context, e AcquireEvent) {
	for _, o := range o.all {
		o.Acquired(ctx, e)
	}
}

func (o *observers) Released(ctx context.Context, e ReleaseEvent) {
	for _, o := range o.all {
		o.Released(ctx, e)
	}
}

func (o *observers) Lost(e LostEvent) {
	for _, o := range o.all {
		o.Lost(e)
	}
}

func (o *observers) Renewed(e RenewEvent) {
	for _, o := range o.all {
		o.Renewed(e)
	}
}

// hooks returns what tells o of what happens, nil if o is nil.
func hooks(o Observer) *engine.Hooks {
	if isNil(o) {
		return nil
	}
	h := &engine.Hooks{
		Observer: o,
		Waiting: func(ctx context.Context, a *engine.Acquired) {
			o.Waiting(ctx, WaitEvent{Name: a.Name, Kind: Kind(a.Kind)})
		},
		Acquired: func(ctx context.Context, a *engine.Acquired) {
			e := AcquireEvent{
				Name: a.Name, Kind: Kind(a.Kind), Held: a.Held, Wait: a.Wait, Contended: a.Contended, Waited: a.Waited,
				Handoff: a.Handoff, Err: a.Err,
			}
			if a.Held {
				e.Token = a.Hold.Fence()
			}
			o.Acquired(ctx, e)
		},
		Released: func(ctx context.Context, r engine.Ended) {
			o.Released(ctx, ReleaseEvent{Name: r.Name, Kind: Kind(r.Kind), Held: r.Held, Err: r.Err})
		},
		Lost: func(l engine.Ended) {
			o.Lost(LostEvent{Name: l.Name, Kind: Kind(l.Kind), Held: l.Held, Cause: l.Err})
		},
		Renewed: func(holds int, took time.Duration, err error) {
			o.Renewed(RenewEvent{Holds: holds, Duration: took, Err: lockerr.Wrap("renew", "", err)})
		},
	}
	if !reflect.ValueOf(o).Comparable() {
		h.Observer = h
	}
	return h
}
