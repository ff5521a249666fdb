package relock

import (
	"slices"

	"github.com/relock-go/relock/internal/event"
)

// An Observer receives events of a session's locks, for metrics, traces and logs. It is called
// synchronously, from several goroutines at once: it must be safe for concurrent use, must not block,
// and must not call back into the session. If it panics, so does the call that it was told of, which then holds
// nothing; an event of the background, such as a renewal, ends the process. Embed [NopObserver] to stay compatible when events are
// added. ctx is the caller's.
//
//	Waiting(ctx, WaitEvent)     a Lock has found the lock taken, by this process or another, and waits
//	Acquired(ctx, AcquireEvent) a Lock or TryLock has ended, with the lock, without it, or with an error
//	Released(ctx, ReleaseEvent) a hold was ended by its last Unlock
//	Lost(LostEvent)             a hold has ended before its last Unlock, or that returns [ErrLost]
//	Renewed(RenewEvent)         a batch of leases was renewed, or could not be
//
// Every Acquired with Held is followed by one Released or one Lost, and every Waiting by one Acquired
// with Waited. Re-entry is no event. A [Group] and a [Redlock] report as themselves, once to each
// observer of their sessions (by ==); their members do not.
type Observer = event.Observer

// Kind is the kind, or side, of the lock that an event is about.
type Kind = event.Kind

const (
	KindMutex     = event.Mutex     // [Mutex]
	KindFair      = event.Fair      // [FairMutex]
	KindRead      = event.Read      // the read side of an [RWMutex]
	KindWrite     = event.Write     // its write side
	KindGroup     = event.Group     // [Group]
	KindRedlock   = event.Redlock   // [Redlock]
	KindSemaphore = event.Semaphore // [Semaphore]
)

// The events.
type (
	WaitEvent    = event.WaitEvent    // Name, Kind
	AcquireEvent = event.AcquireEvent // Name, Kind, Held, Wait, Contended, Waited, Handoff, Token, Err
	ReleaseEvent = event.ReleaseEvent // Name, Kind, Held, Err
	LostEvent    = event.LostEvent    // Name, Kind, Held, Cause
	RenewEvent   = event.RenewEvent   // Holds, Duration, Err: one round of renewals, in a cluster those of one node
)

// NopObserver ignores every event.
type NopObserver = event.Nop

// Observers returns an observer that passes every event to each of these, in order.
func Observers(o ...Observer) Observer {
	o = slices.DeleteFunc(slices.Clone(o), func(o Observer) bool { return isNil(o) })
	switch len(o) {
	case 0:
		return NopObserver{}
	case 1:
		return o[0]
	}
	all := event.All(o)
	return &all
}
