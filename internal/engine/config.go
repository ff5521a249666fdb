package engine

import (
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
	Hooks    *Hooks        // nil: nobody is told

	// Dispatch sees every message first, and reports whether to withhold it from the
	// subscriptions of its channel. It must not block.
	Dispatch func(channel, message string) bool
}

// LockConfig configures a lock.
type LockConfig struct {
	Lease   time.Duration // length of its leases; 0: the engine's
	MaxHold time.Duration // a hold does not last longer; 0: no bound
	Err     error         // misuse of an option, returned by every operation
	Fixed   bool          // leases are not renewed
}

// Passable reports whether goroutines of this process may pass a hold among each other. A hold
// whose length is bounded is its owner's alone.
func (c *LockConfig) Passable() bool { return !c.Fixed && c.MaxHold == 0 }
