package relock

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/wire"
)

const (
	defaultLease  = 30 * time.Second
	defaultTenure = 10 * time.Millisecond
	minLease      = 10 * time.Millisecond
)

// A SessionOption configures a [Session].
type SessionOption interface{ applySession(*sessionConfig) }

// A LockOption configures one lock value and its holds.
type LockOption interface{ applyLock(*lockConfig) }

// An Option configures a [Session], or one lock value; see [WithLease].
type Option interface {
	SessionOption
	LockOption
}

type sessionConfig struct {
	acquire.Config
	err error // the first option that was out of range
}

func sessionConfigOf(opts []SessionOption) (acquire.Config, error) {
	c := sessionConfig{Config: acquire.Config{Lease: defaultLease, Tenure: defaultTenure, Label: defaultLabel()}}
	for _, o := range opts {
		if o != nil {
			o.applySession(&c)
		}
	}
	return c.Config, c.err
}

// defaultLabel returns program@host:pid.
func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	label := fmt.Sprintf("%s@%s:%d", filepath.Base(os.Args[0]), host, os.Getpid())
	label = strings.ToValidUTF8(label[max(0, len(label)-wire.MaxLabel):], "?")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, label)
}

type lockConfig struct {
	acquire.LockConfig               // its Lease is not used here
	lease, fixed       time.Duration // of WithLease and WithFixedLease; 0: not given
}

func lockConfigOf(opts []LockOption) acquire.LockConfig {
	var c lockConfig
	for _, o := range opts {
		if o != nil {
			o.applyLock(&c)
		}
	}
	if c.lease != 0 && c.fixed != 0 {
		c.fail("WithLease(%v) and WithFixedLease(%v): a lease is renewed or fixed; leave one of them out", c.lease, c.fixed)
	}
	if c.Keep != 0 && (c.fixed != 0 || c.MaxHold != 0 || c.MinHold != 0) {
		c.fail("WithKeep(%v): not with WithFixedLease, WithMaxHold or WithMinHold, whose holds end by themselves", c.Keep)
	}
	c.Lease, c.Fixed = (c.lease + c.fixed).Truncate(time.Millisecond), c.fixed != 0
	return c.LockConfig
}

// unkeptConfigOf is lockConfigOf for locks that cannot be kept.
func unkeptConfigOf(opts []LockOption) acquire.LockConfig {
	c := lockConfigOf(opts)
	if c.Keep != 0 && c.Err == nil {
		c.Err = fmt.Errorf("%w: WithKeep(%v): only a Mutex can be kept", ErrOption, c.Keep)
	}
	return c
}

// fail records the first misuse of an option.
func (c *lockConfig) fail(format string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf("%w: "+format, append([]any{ErrOption}, args...)...)
	}
}

type sessionOption func(*sessionConfig)

func (f sessionOption) applySession(c *sessionConfig) { f(c) }

type lockOption func(*lockConfig)

func (f lockOption) applyLock(c *lockConfig) { f(c) }

type leaseOption time.Duration

func (d leaseOption) applySession(c *sessionConfig) {
	c.Lease = time.Duration(d).Truncate(time.Millisecond)
	if c.Lease < minLease && c.err == nil {
		c.err = fmt.Errorf("%w: WithLease(%v): the lease must be at least %v", ErrOption, time.Duration(d), minLease)
	}
}

func (d leaseOption) applyLock(c *lockConfig) {
	c.lease = time.Duration(d)
	if c.lease < minLease {
		c.fail("WithLease(%v): the lease must be at least %v", c.lease, minLease)
	}
}

// WithLease sets the length of leases, of a session's locks or of one lock value: at least 10 ms,
// by default 30 s. A short lease frees a dead process's locks sooner; a long one survives a longer
// outage of Redis. Locks are passed on ([WithTenure]) only between leases of the same length.
func WithLease(d time.Duration) Option { return leaseOption(d) }

// WithPrefix puts a prefix before the names of the session's locks: with WithPrefix("lock:") the
// key of lock order:1 is lock:order:1. It counts for the length of a name (1 KiB) and its hash tag:
// {shop}: puts all locks in one slot of a cluster. Errors, events, Inspect and ForceUnlock use
// names without it.
func WithPrefix(prefix string) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Prefix = prefix
		if err := wire.CheckPrefix(prefix); err != nil && c.err == nil {
			c.err = fmt.Errorf("%w: WithPrefix(%.40q): %w", ErrOption, prefix, err)
		}
	})
}

// WithLabel names this process for people: [Session.Inspect] shows it. The default is
// program@host:pid. Redis keeps it in plain text while the session lives. It has at most 256
// printable bytes; an empty one is not kept.
func WithLabel(label string) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Label = label
		if err := wire.CheckLabel(label); err != nil && c.err == nil {
			c.err = fmt.Errorf("%w: WithLabel(%.40q): %w", ErrOption, label, err)
		}
	})
}

// WithTenure sets the hand-off window: how long after the acquisition, or after a kept lock is
// taken again, a process may pass the lock on among its goroutines, without a round trip, before it
// queues behind other processes. The default is 10 ms. With 0 no lock is passed on, nor is one with
// [WithFixedLease], [WithMaxHold] or [WithMinHold].
func WithTenure(d time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Tenure = d
		if d < 0 && c.err == nil {
			c.err = fmt.Errorf("%w: WithTenure(%v): must not be negative", ErrOption, d)
		}
	})
}

// WithReplicas makes an acquisition count only once n replicas have acknowledged it (the WAIT
// command). If they have not within timeout, it is undone, and Lock returns [ErrReplicas];
// [NewSession], [Hold.Handoff] and [Session.Adopt] fail likewise. In a cluster, the replicas of one
// primary count.
func WithReplicas(n int, timeout time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Replicas, c.AckWait = n, timeout
		if (n < 1 || timeout < time.Millisecond) && c.err == nil {
			c.err = fmt.Errorf("%w: WithReplicas(%d, %v): needs at least one replica and a timeout of at least 1ms", ErrOption, n, timeout)
		}
	})
}

// WithBackgroundStart makes [NewSession] return at once: it sends nothing, ignores its ctx, and
// fails only if an option is out of range. The session then tries about once a second to connect
// and check the server. So a program can start before its Redis (docs/recipes.md has the client),
// or a [Redlock] while a minority of its servers is down.
//
// Until that succeeds, Lock and Acquire wait; TryLock waits for the first attempt, and fails with
// [ErrUnavailable]. If only people can fix the problem, such as a missing permission, a read-only
// replica or too few replicas ([WithReplicas]), every call returns that error at once until it is
// fixed.
func WithBackgroundStart() SessionOption {
	return sessionOption(func(c *sessionConfig) { c.Background = true })
}

// WithObserver sends the session's events to o; see [Observers] for several.
func WithObserver(o Observer) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		if c.Observer = nil; !isNil(o) {
			c.Observer = tell(o)
		}
	})
}

// WithFixedLease sets a lease that is not renewed: it ends d (at least 10 ms) after the
// acquisition, even if its owner has locked again.
func WithFixedLease(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.fixed = d
		if d < minLease {
			c.fail("WithFixedLease(%v): the lease must be at least %v", d, minLease)
		}
	})
}

// WithWait bounds how long Acquire, Lock and [Do] take to get the lock, not the work under it:
// after d they return [context.DeadlineExceeded], joined with [ErrTaken] or [ErrUnavailable]. In a
// [Group] it bounds each attempt at that member, and each wait for it.
func WithWait(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.Wait = d
		if d <= 0 {
			c.fail("WithWait(%v): must be positive; TryLock does not wait", d)
		}
	})
}

// WithMinHold keeps the lock taken after Unlock, until d (at least 1 ms) after the acquisition.
// Until then no caller gets it, not even in this process, and nothing renews it. Unlock returns as
// usual. So a job with [TryDo] runs once per period, if d is shorter than that, and longer than the
// difference between its hosts' clocks.
//
// There is no minimum if the hold is lost, or ended by Close before its Unlock; nor for a write
// side whose owner still reads, or a read side whose owner writes. If Redis does not hear of an
// Unlock before the lease ends, as when the process dies, the lock is free then. If an owner enters
// again, the minimum of its first Lock counts.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.MinHold = d
		if d < time.Millisecond {
			c.fail("WithMinHold(%v): must be at least 1ms", d)
		}
	})
}

// WithKeep is for a [Mutex] that a process locks again and again. After Unlock, which returns at
// once, the session keeps the lock in Redis, renewed, for up to d (at least 1 ms). The next
// acquisition takes it in memory, with a larger token. It needs a round trip only if another
// process waits, or with another length of lease, [WithFixedLease], [WithMaxHold] or [WithMinHold].
//
// When a Lock of another process waits, the session releases the kept lock at once. It keeps only a
// lock that it had the last two times, or that nobody had lately; at most 10,000, of which it first
// releases those closest to their end. Close releases all. The loss of an idle lock is not
// reported. A dead process's kept locks stay taken for a lease. If a kept key is deleted, or a step
// of the server's clock ends it, the session may still take the lock in memory for a third of a
// lease, with a token smaller than those issued meanwhile.
//
// A TryLock with WithKeep recalls a lock that it finds taken, and waits 250 ms for it. A TryLock
// without WithKeep or of a [Group], every call of a [Redlock], and Redisson cannot recall it: use
// WithKeep for a name everywhere, or nowhere. A Group ignores it. With other lock types or the
// three options above it is [ErrOption].
func WithKeep(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.Keep = d
		if d < time.Millisecond {
			c.fail("WithKeep(%v): must be at least 1ms", d)
		}
	})
}

// WithNote tells people who has a hold and why: [State.Note] and the relock command show it. It has
// at most 128 bytes of printable UTF-8, or the error is [ErrOption]. Redis keeps it in plain text.
// In a [Group], give it to the members. While a [Redlock] is passed on in the process
// ([WithTenure]), the first holder's note stays. Readers of an [RWMutex] ignore it, and a
// [Semaphore] returns ErrOption.
func WithNote(text string) LockOption {
	return lockOption(func(c *lockConfig) {
		c.Note = text
		if err := wire.CheckNote(text); err != nil {
			c.fail("WithNote(%.40q): %w", text, err)
		}
	})
}

// WithMaxHold bounds how long a stuck holder keeps the lock: the lease is renewed, but the hold is
// lost at the latest d (at least 10 ms) after the acquisition, even if its owner has locked again.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.MaxHold = d
		if d < minLease {
			c.fail("WithMaxHold(%v): must be at least %v", d, minLease)
		}
	})
}
