package relock

import (
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/wire"
)

const (
	defaultLease  = 30 * time.Second
	defaultTenure = 10 * time.Millisecond
	minLease      = 10 * time.Millisecond
)

// A SessionOption sets up a [Session]; see the With functions.
type SessionOption interface{ applySession(*sessionConfig) }

// A LockOption sets up one handle of a lock; see [WithFixedLease] and [WithMaxHold].
type LockOption interface{ applyLock(*engine.LockConfig) }

type sessionConfig struct {
	engine.Config
	err error // the first option that was out of range
}

func sessionConfigOf(opts []SessionOption) (engine.Config, error) {
	c := sessionConfig{Config: engine.Config{Lease: defaultLease, Tenure: defaultTenure}}
	for _, o := range opts {
		if o != nil {
			o.applySession(&c)
		}
	}
	return c.Config, c.err
}

func lockConfig(opts []LockOption) (c engine.LockConfig) {
	for _, o := range opts {
		if o != nil {
			o.applyLock(&c)
		}
	}
	return c
}

type sessionOption func(*sessionConfig)

func (f sessionOption) applySession(c *sessionConfig) { f(c) }

type lockOption func(*engine.LockConfig)

func (f lockOption) applyLock(c *engine.LockConfig) { f(c) }

// WithLease sets the lease of locks that have no lease of their own. The
// watchdog renews it every third of it for as long as the lock is held. The
// default is 30 s, the minimum 10 ms.
//
// A short lease frees the locks of a dead process sooner; a long one survives a
// longer outage of Redis or pause of the process.
func WithLease(lease time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Lease = lease.Truncate(time.Millisecond)
		if lease < minLease && c.err == nil {
			c.err = fmt.Errorf("%w: WithLease(%v): the lease must be at least %v", ErrOption, lease, minLease)
		}
	})
}

// WithPrefix puts a prefix before the names of all locks of the session: with
// WithPrefix("lock:") the lock order:1 is at the key lock:order:1, and never at the data that an
// application may have at order:1. Without, a name is the key, as in Redisson: use the prefix
// where no process with Redisson, or without the prefix, shares the locks.
//
// The prefix counts for the length of a name (1 KiB) and for its hash tag: with {shop}: all
// locks of the session are in one slot of a cluster. It may have no brace without a valid hash
// tag. Everything else speaks of names without it: Name, errors, events, Inspect and
// ForceUnlock. Only what is about the key itself, such as [ErrNotLock], tells the key.
func WithPrefix(prefix string) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Prefix = prefix
		if err := wire.CheckPrefix(prefix); err != nil && c.err == nil {
			c.err = fmt.Errorf("%w: WithPrefix(%.40q): %w", ErrOption, prefix, err)
		}
	})
}

// WithTenure sets how long, counted from the acquisition in Redis, this process
// may pass a lock among its own goroutines without asking Redis. When it is over
// and goroutines still wait, the lock is released and they compete with the other
// processes on equal terms. The default is 10 ms; 0 turns passing off.
func WithTenure(d time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Tenure = d
		if d < 0 && c.err == nil {
			c.err = fmt.Errorf("%w: WithTenure(%v): must not be negative", ErrOption, d)
		}
	})
}

// WithReplicas makes an acquisition count only once n replicas have acknowledged
// it (the WAIT command). If they have not within timeout, the acquisition is
// undone and reported as an error. It costs a round trip to the replicas, and
// narrows the window in which a failover loses a lock; it does not close it.
func WithReplicas(n int, timeout time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Replicas, c.AckWait = n, timeout
		if (n < 1 || timeout < time.Millisecond) && c.err == nil {
			c.err = fmt.Errorf("%w: WithReplicas(%d, %v): needs at least one replica and a timeout of at least 1ms", ErrOption, n, timeout)
		}
	})
}

// WithObserver sends the session's events to o. See [Observer].
func WithObserver(o Observer) SessionOption {
	return sessionOption(func(c *sessionConfig) { c.Hooks = hooks(o) })
}

// WithFixedLease gives the lock a fixed lease: it is not renewed, and ends d after the
// acquisition if it is not unlocked before. Locking again under the same owner
// does not prolong it. The minimum is 10 ms.
func WithFixedLease(d time.Duration) LockOption {
	return lockOption(func(c *engine.LockConfig) {
		c.Lease = d.Truncate(time.Millisecond)
		if d < minLease && c.Err == nil {
			c.Err = fmt.Errorf("%w: WithFixedLease(%v): the lease must be at least %v", ErrOption, d, minLease)
		}
	})
}

// WithMaxHold bounds how long a stuck holder can keep the lock: d after the
// acquisition the watchdog stops renewing it, and the hold is lost when its lease
// runs out. It has no effect together with [WithFixedLease].
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *engine.LockConfig) {
		c.MaxHold = d
		if d <= 0 && c.Err == nil {
			c.Err = fmt.Errorf("%w: WithMaxHold(%v): must be positive", ErrOption, d)
		}
	})
}
