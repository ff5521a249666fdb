package relock

import (
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
)

// An Observer is told what happens to the locks of a session, for metrics and
// traces. It is called synchronously, from several goroutines at once, on the path
// of the operation it reports: it must be safe for concurrent use and must not
// block, nor call back into the session. Embed [NopObserver] to stay compatible
// when events are added.
//
// Locking again what the owner already holds, and all unlocks but the last, are no
// events.
type Observer interface {
	Acquired(AcquireEvent) // a Lock or TryLock has ended, except a TryLock that found the lock taken
	Released(ReleaseEvent) // a hold was ended by its last Unlock
	Lost(LostEvent)        // a hold has ended before its last Unlock
	Renewed(RenewEvent)    // a batch of leases was renewed, or could not be
}

// AcquireEvent reports the end of a Lock or TryLock.
type AcquireEvent struct {
	Name      string
	Wait      time.Duration // from the call to its end
	Contended bool          // not acquired at the first attempt
	Handoff   bool          // it came from a goroutine of this process, without asking Redis
	Err       error         // nil if the lock is held
}

// ReleaseEvent reports the end of a hold by its last Unlock.
type ReleaseEvent struct {
	Name string
	Held time.Duration // from the acquisition to the call of Unlock
	Err  error         // of Unlock, or why Redis has not confirmed the release
}

// LostEvent reports the loss of a hold.
type LostEvent struct {
	Name  string
	Cause error
}

// RenewEvent reports one round of renewals, in a cluster of one node.
type RenewEvent struct {
	Holds    int           // how many were due
	Duration time.Duration // round trip
	Err      error         // first error, nil if there was none
}

// NopObserver ignores every event.
type NopObserver struct{}

func (NopObserver) Acquired(AcquireEvent) {}
func (NopObserver) Released(ReleaseEvent) {}
func (NopObserver) Lost(LostEvent)        {}
func (NopObserver) Renewed(RenewEvent)    {}

// hooks returns what tells o of what happens.
func hooks(o Observer) engine.Hooks {
	if o == nil {
		return engine.Hooks{}
	}
	return engine.Hooks{
		Acquired: func(e engine.Acquired) {
			o.Acquired(AcquireEvent{Name: e.Name, Wait: e.Wait, Contended: e.Contended, Handoff: e.Handoff, Err: e.Err})
		},
		Released: func(name string, held time.Duration, err error) {
			o.Released(ReleaseEvent{Name: name, Held: held, Err: err})
		},
		Lost: func(name string, cause error) { o.Lost(LostEvent{Name: name, Cause: cause}) },
		Renewed: func(holds int, took time.Duration, err error) {
			o.Renewed(RenewEvent{Holds: holds, Duration: took, Err: lockerr.Wrap("renew", "", err)})
		},
	}
}
