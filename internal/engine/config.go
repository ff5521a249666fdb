package engine

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Config configures an Engine.
type Config struct {
	Scripts  *wire.Scripts
	Prefix   string        // before the names of all locks
	Label    string        // of the session, for people; may be empty
	Lease    time.Duration // of locks without one of their own
	Tenure   time.Duration // how long a hold may be passed among the goroutines of this process
	Replicas int           // replicas that must acknowledge an acquisition
	AckWait  time.Duration // for their acknowledgement
	Hooks    Hooks

	// Dispatch sees every message first, and reports whether to withhold it from the
	// subscriptions of its channel. It must not block.
	Dispatch func(channel, message string) bool
}

// LockConfig configures a lock.
type LockConfig struct {
	Lease   time.Duration // length of its leases; 0: the engine's
	Fixed   bool          // they are not renewed
	MaxHold time.Duration // a hold does not last longer; 0: no bound
	Err     error         // misuse of an option, returned by every operation
}

// Passable reports whether goroutines of this process may pass a hold among each other. A hold
// whose length is bounded is its owner's alone.
func (c *LockConfig) Passable() bool { return !c.Fixed && c.MaxHold == 0 }

// Hooks report what happens to the locks of an engine. Each may be nil.
type Hooks struct {
	Acquired func(context.Context, Acquired)
	Released func(ctx context.Context, name string, held time.Duration, err error)
	Lost     func(name string, cause error)
	Renewed  func(holds int, took time.Duration, err error)
}

// Acquired describes the end of a call of Lock or TryLock.
type Acquired struct {
	Name      string
	Wait      time.Duration // from the call to its end
	Contended bool          // the first attempt did not acquire it
	Handoff   bool          // passed on by a goroutine of this process, without asking Redis
	Err       error         // nil if the lock is held

	start     int64 // of the call; set where it is needed, since a re-entry costs hardly more than the look at the clock
	reentered bool  // the owner held it already: not reported
}

// begin notes when the call began, once.
func (a *Acquired) begin(e *Engine) {
	if a.start == 0 {
		a.start = e.Clock.Now()
	}
}
