package lease

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Causes of the loss of a lease.
var (
	ErrExpired = errors.New("its lease ran out before it could be renewed")
	ErrEnded   = errors.New("its lease ran out") // it was not to be renewed
	ErrMaxHold = errors.New("it was held for as long as WithMaxHold allows")
	ErrGone    = errors.New("it is not in Redis any more")
	ErrForced  = errors.New("it was forced open")
)

const (
	Early   = int64(time.Millisecond) // a loss is reported that long before the deadline
	Forever = int64(1) << 62          // a time that never comes

	leastRenewal = 10 * time.Millisecond // shorter leases are not worth a renewal
	leastRetry   = 5 * time.Millisecond  // after a renewal that failed

	// A hold that was granted for a claim gets its lease after confirmAfter: until then a short section
	// has ended, and costs no renewal. Those due within confirmTogether get theirs with it.
	confirmAfter    = 20 * time.Millisecond
	confirmTogether = 5 * time.Millisecond
)

// A Lease is one acquisition from Redis: what this process holds under one hold id, whichever
// goroutine has it now.
type Lease struct {
	wire.Ref

	// Written before the watchdog knows the lease, or by the call that owns it.
	Sent          int64 // when the acquisition was sent
	Since         int64 // when it was acquired: the tenure starts
	Fixed         bool  // not renewed
	Indeterminate bool  // a request got no reply and may still be executed
	granted       bool  // by another's release, after it had waited

	Late     atomic.Bool  // Redis did not confirm the release in time
	Deadline atomic.Int64 // certain until then; moved by renewals
	claim    atomic.Int64 // length of the claim that it was granted for, until its first renewal; 0: none

	// Guarded by the arbiter's shard. Token is the current fencing token, Top the last of its
	// block. A reader has no token; of one with a lease of its own, Top is when its hold
	// ends at the latest.
	Token, Top int64

	// Guarded by Watchdog.mu.
	Index    int   // in the watchdog's heap; -1: not there
	stopped  bool  // no more renewals: it is being released
	renewing bool  // its renewal waits to be sent, or for its reply
	giveUp   int64 // when to cancel release, unless the deadline is earlier
	at       int64 // when the watchdog handles it next
	end      int64 // it must not last longer, here or in Redis; 0: no bound
	release  *transport.Context
}

// A Hold is an owner's hold on a lease.
type Hold = arbiter.Hold[*Lease]

// Margin returns by how much a lease is assumed to be shorter than it is. Two clocks drift apart
// by 1000 ppm at most while NTP slews both as far as it goes; the margin is twice that, and 2 ms
// for Redis's millisecond grain.
func Margin(length time.Duration) time.Duration { return length/500 + 2*time.Millisecond }

// RoundMost returns how long a round of requests for leases may take, the longest of which has that
// length. A hanging Redis must not delay the next round for long, but a round trip may take as long
// as requests are apart, and for short leases longer.
func RoundMost(longest time.Duration) time.Duration {
	return max(longest/3, min(longest/2, time.Second), 20*time.Millisecond)
}

// CertainUntil returns the local deadline of a lease whose acquisition or renewal was sent then.
func CertainUntil(length time.Duration, sent int64) int64 { return sent + int64(length-Margin(length)) }

// Granted records that l was granted by another's release, for a term until a deadline. The term may
// be a claim.
func (l *Lease) Granted(term time.Duration, until int64, claim bool) {
	l.granted = true
	l.Deadline.Store(until)
	if claim {
		l.claim.Store(int64(term))
	}
}

// Acquired records that the request sent at l.Sent has acquired l.
func (l *Lease) Acquired() {
	l.granted = false
	l.claim.Store(0)
	l.Deadline.Store(l.CertainUntil(l.Sent))
}

// soon returns how long before its renewal is due l may be renewed together with others.
func (l *Lease) soon() time.Duration {
	if l.claim.Load() > 0 {
		return confirmTogether
	}
	return l.Length / 12
}

// Began returns when the time of l began to count: when it was granted, or its acquisition sent.
func (l *Lease) Began() int64 {
	if l.granted {
		return l.Since
	}
	return l.Sent
}

// Fresh reports whether there is enough left of l for another goroutine to take it over: half of
// its length, or a third of a claim, which is renewed by then.
func (l *Lease) Fresh(now int64) bool {
	least := int64(l.Length / 2)
	if claim := l.claim.Load(); claim > 0 {
		least = claim / 3
	}
	return l.Deadline.Load()-now >= least
}

// CertainUntil returns the deadline of l if its acquisition or renewal was sent then.
func (l *Lease) CertainUntil(sent int64) int64 { return CertainUntil(l.Length, sent) }

// lengthAt returns the length of a renewal that is sent then, 0 if there must be none any more.
func (l *Lease) lengthAt(sent int64) time.Duration {
	if l.end == 0 {
		return l.Length
	}
	if left := time.Duration(l.end - sent).Truncate(time.Millisecond); left >= leastRenewal {
		return min(left, l.Length)
	}
	return 0
}

// cause returns why l is lost at its deadline.
func (l *Lease) cause() error {
	switch {
	case l.end > 0 && l.Deadline.Load()+int64(Margin(l.Length)+leastRenewal) >= l.end:
		return ErrMaxHold
	case l.Fixed:
		return ErrEnded
	}
	return ErrExpired
}

// Certain reports whether l is held for certain.
func Certain(l *Lease, now int64) bool { return now < l.Deadline.Load() }

// Ends returns when the hold of a reader with a lease of its own ends at the latest.
func (l *Lease) Ends() int64 { return l.Top }

// LockName returns the name of the lock.
func (l *Lease) LockName() string { return l.Keys.Name }

// Refs returns the leases as Redis knows them.
func Refs(ls []*Lease) []*wire.Ref {
	rs := make([]*wire.Ref, len(ls))
	for i, l := range ls {
		rs[i] = &l.Ref
	}
	return rs
}
