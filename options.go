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

// A SessionOption sets up a [Session]; see the With functions.
type SessionOption interface{ applySession(*sessionConfig) }

// A LockOption sets up one value of a lock type, and what is acquired through it; see [WithLease],
// [WithFixedLease], [WithMaxHold], [WithMinHold], [WithKeep], [WithNote] and [WithWait].
type LockOption interface{ applyLock(*lockConfig) }

// An Option sets up a [Session], or one value of a lock type; see [WithLease].
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

// WithLease sets the length of leases, of all locks of a session or of one lock value; the watchdog
// renews them every third of it. The default is 30 s, the minimum 10 ms. A short lease frees the
// locks of a dead process sooner; a long one survives a longer outage of Redis.
//
// A lock is passed on ([WithTenure]) only to goroutines that lock it with a lease of the same
// length.
func WithLease(d time.Duration) Option { return leaseOption(d) }

// WithPrefix puts a prefix before the names of all locks of the session: with WithPrefix("lock:")
// the lock order:1 is at the key lock:order:1. The prefix counts for the length of a name (1 KiB)
// and for its hash tag: with {shop}: all locks of the session are in one slot of a cluster. Errors,
// events, Inspect and ForceUnlock use names without it.
func WithPrefix(prefix string) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Prefix = prefix
		if err := wire.CheckPrefix(prefix); err != nil && c.err == nil {
			c.err = fmt.Errorf("%w: WithPrefix(%.40q): %w", ErrOption, prefix, err)
		}
	})
}

// WithLabel says who this process is, for people: [Session.Inspect] shows it beside what the
// session holds. The default is program@host:pid. Redis keeps it in plain text while the session
// lives. It has at most 256 printable bytes; an empty one is not kept.
func WithLabel(label string) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Label = label
		if err := wire.CheckLabel(label); err != nil && c.err == nil {
			c.err = fmt.Errorf("%w: WithLabel(%.40q): %w", ErrOption, label, err)
		}
	})
}

// WithTenure sets the hand-off window: for how long after the acquisition, or after a lock that was
// kept is taken again, a process may pass the lock on among its goroutines without a round trip.
// After that it queues behind other processes. The default is 10 ms; with 0 it passes no lock on.
func WithTenure(d time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Tenure = d
		if d < 0 && c.err == nil {
			c.err = fmt.Errorf("%w: WithTenure(%v): must not be negative", ErrOption, d)
		}
	})
}

// WithReplicas makes an acquisition count only once n replicas have acknowledged it (the WAIT
// command). If they have not within timeout, it is undone, and Lock returns [ErrReplicas]. That
// narrows the window in which a failover loses a lock, and does not close it. [NewSession],
// [Hold.Handoff] and [Session.Adopt] fail likewise if fewer replicas acknowledge in time, in a
// cluster those of one primary.
func WithReplicas(n int, timeout time.Duration) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		c.Replicas, c.AckWait = n, timeout
		if (n < 1 || timeout < time.Millisecond) && c.err == nil {
			c.err = fmt.Errorf("%w: WithReplicas(%d, %v): needs at least one replica and a timeout of at least 1ms", ErrOption, n, timeout)
		}
	})
}

// WithBackgroundStart makes [NewSession] return at once. It sends nothing, ignores its ctx, and fails
// only if an option is out of range. The session then tries about once a second to connect and to
// check the server, until that succeeds. So a [Redlock] starts while a minority of its servers is
// down, and uses them once they are there; and a program can start before its Redis.
//
// Until then calls behave as they do while Redis does not answer. Lock and Acquire wait, and
// TryLock fails with [ErrUnavailable]; a TryLock right after NewSession waits for the first attempt.
// If the check finds something that only people can fix, such as a missing permission, a read-only
// replica, or too few replicas ([WithReplicas]), every call returns that error at once, also Lock.
// Once it is fixed, the session starts.
//
// With ClientOption.ForceSingleClient, rueidis.NewClient returns a client and an error when a single
// server is down: use that client. For a cluster or Sentinel it returns none: call it until it does.
func WithBackgroundStart() SessionOption {
	return sessionOption(func(c *sessionConfig) { c.Background = true })
}

// WithObserver sends the session's events to o. See [Observer] and, for more than one, [Observers].
func WithObserver(o Observer) SessionOption {
	return sessionOption(func(c *sessionConfig) {
		if c.Observer = nil; !isNil(o) {
			c.Observer = tell(o)
		}
	})
}

// WithFixedLease gives the lock a lease that is not renewed: it ends d (at least 10 ms) after the
// acquisition, also if its owner has locked again. The hold is not passed on to other goroutines.
func WithFixedLease(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.fixed = d
		if d < minLease {
			c.fail("WithFixedLease(%v): the lease must be at least %v", d, minLease)
		}
	})
}

// WithWait bounds how long Acquire, Lock, and so [Do], take until the lock is held: after d they
// return [context.DeadlineExceeded], joined with [ErrTaken] or [ErrUnavailable]. It does not bound
// the work under the lock, as a deadline of the context would. In a [Group] it bounds each of the
// attempts at that member, and each wait for it.
func WithWait(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.Wait = d
		if d <= 0 {
			c.fail("WithWait(%v): must be positive; TryLock does not wait", d)
		}
	})
}

// WithMinHold keeps the lock taken after Unlock, until d (at least 1 ms) after the acquisition:
// until then no caller gets it, not in this process either, and nothing renews it. Unlock returns
// as ever. So a job with [TryDo] runs once per period although it is short and the clocks of its
// hosts differ: let d be longer than they differ, and shorter than the period (ShedLock calls this
// lockAtLeastFor).
//
// Such a hold is not passed on to other goroutines. If it is lost or ended by Close, it ends at
// once; so does the write side of a lock whose owner reads on, and the read side of one whose owner
// writes. When an owner enters again, the minimum of its first Lock counts.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.MinHold = d
		if d < time.Millisecond {
			c.fail("WithMinHold(%v): must be at least 1ms", d)
		}
	})
}

// WithKeep is for a [Mutex] that a process locks again and again: its partition, its tenants, its
// files. After Unlock, which returns at once, the session keeps the lock in Redis for up to d,
// renewed like any hold. The session's next acquisition takes it in memory, with a larger token: it
// needs no round trip, unless another process is waiting, or it has a lease of another length,
// [WithFixedLease], [WithMaxHold] or [WithMinHold]. [State.Kept] and [Observer] tell what is kept.
//
// When a Lock of another process waits for a kept lock, a message recalls it, and the session
// releases it at once. A lock is kept if the session had it the last two times in a row, or nobody
// had it lately. Losing an idle lock is not reported. A process that dies leaves its kept locks
// taken for a lease. A session keeps at most 10,000 locks: the ones closest to their end are
// released first. Close releases them all.
//
// The session asks Redis about its kept locks once every third of a lease, and after its connection
// for messages was broken. In between, a lock whose key somebody deletes is still taken in memory.
//
// A TryLock with WithKeep waits as Lock does, but only for 250 ms once it has found the lock taken:
// that recalls a lock that another process keeps. A TryLock without WithKeep, also of a [Group],
// every call of a [Redlock], and Redisson find a kept lock taken, and cannot recall it. Use it for
// a name everywhere, or nowhere.
//
// In a [Group] it has no effect; other lock types, and the options above beside it, are
// [ErrOption]. d is at least 1 ms.
func WithKeep(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.Keep = d
		if d < time.Millisecond {
			c.fail("WithKeep(%v): must be at least 1ms", d)
		}
	})
}

// WithNote says who has a hold and why, for people: a request id, an order, a reason. [State.Note]
// and the list of the relock command show it. It has at most 128 bytes of printable UTF-8; else the
// error is [ErrOption]. Redis keeps it in plain text beside the lock. It reaches Redis within 25 ms
// of the start of the hold; a shorter hold may leave no note. In a [Group], give it to the members.
// While a [Redlock] is passed on in the process ([WithTenure]), the first holder's note stays.
//
// It is for exclusive locks: readers of an [RWMutex] ignore it, and a [Semaphore] returns ErrOption.
func WithNote(text string) LockOption {
	return lockOption(func(c *lockConfig) {
		c.Note = text
		if err := wire.CheckNote(text); err != nil {
			c.fail("WithNote(%.40q): %w", text, err)
		}
	})
}

// WithMaxHold bounds how long a stuck holder can keep the lock: its lease is renewed, but the hold
// is lost d (at least 10 ms) after the acquisition at the latest, also if its owner has locked
// again. It is not passed on to other goroutines.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) {
		c.MaxHold = d
		if d < minLease {
			c.fail("WithMaxHold(%v): must be at least %v", d, minLease)
		}
	})
}
