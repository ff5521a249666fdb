package relock

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/event"
)

// An Observer receives events of a session's locks. It is called synchronously, from several
// goroutines at once: it must be safe for concurrent use, and must neither block nor call back into
// the session. If it panics, so does the call that it was told of, which then holds nothing; a
// panic in a background event, such as a renewal, ends the process. Embed [NopObserver]: events may
// be added. ctx is the caller's.
//
// Every Acquired with Held is followed by one Released or Lost, and every Waiting by one Acquired
// with Waited. Re-entry is not reported. A [Group] and a [Redlock] report as themselves, not as
// their members, once to each observer of their sessions (by ==).
type Observer interface {
	Waiting(ctx context.Context, e WaitEvent)
	Acquired(ctx context.Context, e AcquireEvent)
	Released(ctx context.Context, e ReleaseEvent)
	Lost(e LostEvent)
	Renewed(e RenewEvent)
	Kept(e KeepEvent)
}

// Kind is the kind or side of a lock.
type Kind uint8

const (
	KindMutex     = Kind(event.Mutex)
	KindFair      = Kind(event.Fair)
	KindRead      = Kind(event.Read)
	KindWrite     = Kind(event.Write)
	KindGroup     = Kind(event.Group)
	KindRedlock   = Kind(event.Redlock)
	KindSemaphore = Kind(event.Semaphore)
)

var kindNames = [...]string{
	KindMutex: "mutex", KindFair: "fair", KindRead: "read", KindWrite: "write", KindGroup: "group", KindRedlock: "redlock",
	KindSemaphore: "semaphore",
}

// String returns "mutex", "fair", "read", "write", "group", "redlock" or "semaphore".
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindNames[k]
}

// WaitEvent reports that a Lock found the lock taken, by this process or another, and waits.
type WaitEvent struct {
	Name string // of the lock, or of a Group's members in the order of locking
	Kind Kind
}

// AcquireEvent reports the end of a Lock, TryLock, Acquire or TryAcquire.
type AcquireEvent struct {
	Name      string // see WaitEvent
	Kind      Kind
	Held      bool          // false without Err: one attempt found the lock taken
	Wait      time.Duration // from the call to its end
	Contended bool          // the lock was found taken
	Waited    bool          // Waiting was reported
	Local     bool          // granted in this process, without a round trip
	Kept      bool          // the session had kept it ([WithKeep])
	Token     int64         // 0 if there is none
	Err       error         // what the call returns
}

// ReleaseEvent reports the end of a hold by its last Unlock.
type ReleaseEvent struct {
	Name string // see WaitEvent
	Kind Kind
	Held time.Duration // from the end of Lock to Unlock
	Err  error         // why Redis has not confirmed the release, which goes on
}

// LostEvent reports a hold that ended before its last Unlock, or by one that returns [ErrLost].
type LostEvent struct {
	Name  string // see WaitEvent
	Kind  Kind
	Held  time.Duration // since the end of Lock
	Cause error         // ErrLost with its reason
}

// RenewEvent reports one round of renewals; in a cluster, those of one node.
type RenewEvent struct {
	Holds    int           // how many were due
	Duration time.Duration // round trip
	Err      error         // the first, if any
}

// KeepEvent reports how many leases a session keeps ([WithKeep]), when that has changed, at most
// once a second.
type KeepEvent struct {
	Session string // its ID
	Leases  int
}

// NopObserver ignores every event.
type NopObserver struct{}

func (NopObserver) Waiting(context.Context, WaitEvent)     {}
func (NopObserver) Acquired(context.Context, AcquireEvent) {}
func (NopObserver) Released(context.Context, ReleaseEvent) {}
func (NopObserver) Lost(LostEvent)                         {}
func (NopObserver) Renewed(RenewEvent)                     {}
func (NopObserver) Kept(KeepEvent)                         {}

// Observers returns an observer that passes every event to each of o, in order.
func Observers(o ...Observer) Observer {
	o = slices.DeleteFunc(slices.Clone(o), func(o Observer) bool { return isNil(o) })
	switch len(o) {
	case 0:
		return NopObserver{}
	case 1:
		return o[0]
	}
	all := observers(o)
	return &all
}

type observers []Observer

func (all observers) each(tell func(Observer)) {
	for _, o := range all {
		tell(o)
	}
}

func (all observers) Waiting(ctx context.Context, e WaitEvent) {
	all.each(func(o Observer) { o.Waiting(ctx, e) })
}

func (all observers) Acquired(ctx context.Context, e AcquireEvent) {
	all.each(func(o Observer) { o.Acquired(ctx, e) })
}

func (all observers) Released(ctx context.Context, e ReleaseEvent) {
	all.each(func(o Observer) { o.Released(ctx, e) })
}

func (all observers) Lost(e LostEvent)     { all.each(func(o Observer) { o.Lost(e) }) }
func (all observers) Renewed(e RenewEvent) { all.each(func(o Observer) { o.Renewed(e) }) }
func (all observers) Kept(e KeepEvent)     { all.each(func(o Observer) { o.Kept(e) }) }

// told tells a user's observer what a session reports.
type told struct{ o Observer }

// tell returns what tells o. Those of one observer are equal, if it can be compared.
func tell(o Observer) event.Observer {
	if t := (told{o}); reflect.ValueOf(o).Comparable() {
		return t
	}
	return &told{o}
}

func (t told) Waiting(ctx context.Context, e event.Wait) {
	t.o.Waiting(ctx, WaitEvent{e.Name, Kind(e.Kind)})
}

func (t told) Acquired(ctx context.Context, e event.Acquire) {
	t.o.Acquired(ctx, AcquireEvent{
		Name: e.Name, Kind: Kind(e.Kind), Held: e.Held, Wait: e.Wait, Contended: e.Contended, Waited: e.Waited, Local: e.Local,
		Kept: e.Kept, Token: e.Token, Err: e.Err,
	})
}

func (t told) Released(ctx context.Context, e event.Release) {
	t.o.Released(ctx, ReleaseEvent{e.Name, Kind(e.Kind), e.Held, e.Err})
}

func (t told) Lost(e event.Loss)     { t.o.Lost(LostEvent{e.Name, Kind(e.Kind), e.Held, e.Cause}) }
func (t told) Renewed(e event.Renew) { t.o.Renewed(RenewEvent(e)) }
func (t told) Kept(e event.Keep)     { t.o.Kept(KeepEvent(e)) }
