// Package event holds what sessions report. Package relock declares the events that users see,
// and says when each is told.
package event

import (
	"context"
	"time"
)

// An Observer is told of events.
type Observer interface {
	Waiting(ctx context.Context, e Wait)
	Acquired(ctx context.Context, e Acquire)
	Released(ctx context.Context, e Release)
	Lost(e Loss)
	Renewed(e Renew)
	Kept(e Keep)
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

// Wait is the start of a wait.
type Wait struct {
	Name string
	Kind Kind
}

// Acquire is the end of a call.
type Acquire struct {
	Name                                 string
	Kind                                 Kind
	Held, Contended, Waited, Local, Kept bool
	Wait                                 time.Duration
	Token                                int64
	Err                                  error
}

// Release is the end of a hold by its last Unlock.
type Release struct {
	Name string
	Kind Kind
	Held time.Duration
	Err  error
}

// Loss is the loss of a hold.
type Loss struct {
	Name  string
	Kind  Kind
	Held  time.Duration
	Cause error
}

// Renew is one round of renewals.
type Renew struct {
	Holds    int
	Duration time.Duration
	Err      error
}

// Keep is how many leases a session keeps.
type Keep struct {
	Session string
	Leases  int
}

// All tells each of several observers of every event, in this order.
type All []Observer

func (all All) each(tell func(Observer)) {
	for _, o := range all {
		tell(o)
	}
}

func (all All) Waiting(ctx context.Context, e Wait) {
	all.each(func(o Observer) { o.Waiting(ctx, e) })
}

func (all All) Acquired(ctx context.Context, e Acquire) {
	all.each(func(o Observer) { o.Acquired(ctx, e) })
}

func (all All) Released(ctx context.Context, e Release) {
	all.each(func(o Observer) { o.Released(ctx, e) })
}

func (all All) Lost(e Loss)     { all.each(func(o Observer) { o.Lost(e) }) }
func (all All) Renewed(e Renew) { all.each(func(o Observer) { o.Renewed(e) }) }
func (all All) Kept(e Keep)     { all.each(func(o Observer) { o.Kept(e) }) }
