// Package event holds the events that observers receive, which package relock exports.
package event

import (
	"context"
	"strconv"
	"time"
)

// An Observer receives the events of a session; see relock.Observer.
type Observer interface {
	// Waiting: a Lock has found the lock taken, by this process or another, and waits now. It is
	// called once for each call, whose end is the next event.
	Waiting(ctx context.Context, e WaitEvent)

	// Acquired: a Lock or TryLock has ended, with the lock, without it, or with an error.
	Acquired(ctx context.Context, e AcquireEvent)

	// Released: a hold was ended by its last Unlock.
	Released(ctx context.Context, e ReleaseEvent)

	// Lost: a hold has ended before its last Unlock, or its last Unlock returns ErrLost.
	Lost(e LostEvent)

	// Renewed: a batch of leases was renewed, or could not be.
	Renewed(e RenewEvent)
}

// Kind is the kind of a lock, or the side of one, that an event is about.
type Kind uint8

// The kinds of locks.
const (
	Mutex Kind = iota + 1
	Fair
	Read
	Write
	Group
	Redlock
)

var kindNames = [...]string{Mutex: "mutex", Fair: "fair", Read: "read", Write: "write", Group: "group", Redlock: "redlock"}

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

// RenewEvent reports one round of renewals, in a cluster those of one node.
type RenewEvent struct {
	Holds    int           // how many were due
	Duration time.Duration // round trip
	Err      error         // first error, nil if there was none
}

// Nop ignores every event.
type Nop struct{}

// Waiting does nothing; see relock.NopObserver.
func (Nop) Waiting(context.Context, WaitEvent) {}

// Acquired does nothing.
func (Nop) Acquired(context.Context, AcquireEvent) {}

// Released does nothing.
func (Nop) Released(context.Context, ReleaseEvent) {}

// Lost does nothing.
func (Nop) Lost(LostEvent) {}

// Renewed does nothing.
func (Nop) Renewed(RenewEvent) {}

// All tells each of several observers of every event, in this order.
type All []Observer

// Waiting implements Observer.
func (all All) Waiting(ctx context.Context, e WaitEvent) {
	for _, o := range all {
		o.Waiting(ctx, e)
	}
}

// Acquired implements Observer.
func (all All) Acquired(ctx context.Context, e AcquireEvent) {
	for _, o := range all {
		o.Acquired(ctx, e)
	}
}

// Released implements Observer.
func (all All) Released(ctx context.Context, e ReleaseEvent) {
	for _, o := range all {
		o.Released(ctx, e)
	}
}

// Lost implements Observer.
func (all All) Lost(e LostEvent) {
	for _, o := range all {
		o.Lost(e)
	}
}

// Renewed implements Observer.
func (all All) Renewed(e RenewEvent) {
	for _, o := range all {
		o.Renewed(e)
	}
}
