// Package event holds the events that observers receive, which package relock exports.
package event

import (
	"context"
	"strconv"
	"time"
)

// An Observer receives the events of a session. relock.Observer says when each method is called.
type Observer interface {
	Waiting(ctx context.Context, e WaitEvent)
	Acquired(ctx context.Context, e AcquireEvent)
	Released(ctx context.Context, e ReleaseEvent)
	Lost(e LostEvent)
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
	Semaphore
)

var kindNames = [...]string{
	Mutex: "mutex", Fair: "fair", Read: "read", Write: "write", Group: "group", Redlock: "redlock", Semaphore: "semaphore",
}

// String returns "mutex", "fair", "read", "write", "group", "redlock" or "semaphore".
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
	Local     bool          // it was granted in this process, without asking Redis
	Kept      bool          // the session had kept it (WithKeep)
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
	Cause error         // ErrLost, and ErrExpired, ErrGone, ErrForced or ErrClosed; its text names no lock
}

// RenewEvent reports one round of renewals, in a cluster those of one node.
type RenewEvent struct {
	Holds    int           // how many were due
	Duration time.Duration // round trip
	Err      error         // first error, nil if there was none
}

// Nop ignores every event.
type Nop struct{}

func (Nop) Waiting(context.Context, WaitEvent)     {}
func (Nop) Acquired(context.Context, AcquireEvent) {}
func (Nop) Released(context.Context, ReleaseEvent) {}
func (Nop) Lost(LostEvent)                         {}
func (Nop) Renewed(RenewEvent)                     {}

// All tells each of several observers of every event, in this order.
type All []Observer

func (all All) each(tell func(Observer)) {
	for _, o := range all {
		tell(o)
	}
}

func (all All) Waiting(ctx context.Context, e WaitEvent) {
	all.each(func(o Observer) { o.Waiting(ctx, e) })
}

func (all All) Acquired(ctx context.Context, e AcquireEvent) {
	all.each(func(o Observer) { o.Acquired(ctx, e) })
}

func (all All) Released(ctx context.Context, e ReleaseEvent) {
	all.each(func(o Observer) { o.Released(ctx, e) })
}

func (all All) Lost(e LostEvent)     { all.each(func(o Observer) { o.Lost(e) }) }
func (all All) Renewed(e RenewEvent) { all.each(func(o Observer) { o.Renewed(e) }) }
