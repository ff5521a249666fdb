package lease

import (
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

const (
	Early   = int64(time.Millisecond) // a loss is reported that long before the deadline
	Forever = timing.Forever

	leastRenewal = 10 * time.Millisecond // shorter leases are not worth a renewal
	leastRetry   = 5 * time.Millisecond  // after a renewal that failed

	// A claim becomes a lease after confirmAfter: until then a short section has ended, and costs
	// no renewal. Those due within confirmTogether are renewed with it.
	confirmAfter    = 20 * time.Millisecond
	confirmTogether = 5 * time.Millisecond
)

// A Lease is one acquisition from Redis: what this process holds under one hold id, whichever
// goroutine has it now. For the watchdog it is in one of these states, which its last fields tell:
//
//	state             deadline      renewal                    release
//	held              pending       pending, or under way      nil
//	being released    pending       not pending                its context
//	lost or removed   not pending   not pending                any
//
// Fixed is what the caller wants; Indeterminate and Late are what Redis has left open. They do not
// depend on each other.
type Lease struct {
	wire.Ref

	// Written before the watchdog knows the lease, or by the call that owns it.
	Sent          int64         // when the acquisition was sent
	Since         int64         // when it was acquired: the tenure starts
	Began         int64         // when its time began to count: Since if another's release has granted it, else Sent
	MinHold       time.Duration // from Since, for which the lock rests after its release
	Keeps         bool          // the session may keep it after Unlock
	Fixed         bool          // the caller wants it not to be renewed
	Indeterminate bool          // a request got no reply and may still be executed
	Queued        bool          // it may have a place in the queue, or another's release may grant it
	Wanted        bool          // others waited behind it when it was granted

	OnLost func(cause error) // of a part of a Redlock, which no arbiter knows; nil: of a lock

	Late     atomic.Bool  // Redis did not confirm the release in time
	Deadline atomic.Int64 // certain until then; moved by renewals
	resumed  atomic.Int64 // when the present hold has taken it over, if it was kept before; 0: it is kept
	checked  atomic.Bool  // its renewal is due early, if that hold lasts; changed under Watchdog.mu
	claim    atomic.Int64 // length of the claim that it was granted for, until its first renewal; 0: none

	// Guarded by the arbiter's shard. Token is the current fencing token, Top the last of its
	// block. A reader has none.
	Token, Top int64
	Turn       int64 // when the tenure started

	// Guarded by the engine's keeper.
	Kept timing.Timer[*Lease] // until when it is kept

	// Guarded by Watchdog.mu.
	deadline timing.Timer[*Lease] // Early before Deadline, or when to cancel release
	renewal  timing.Timer[*Lease]
	release  *transport.Context
	counted  bool  // in Watchdog.held
	end      int64 // it must not last longer, here or in Redis; 0: no bound
}

// A Hold is an owner's hold on a lease.
type Hold = arbiter.Hold[*Lease]

// Margin returns by how much a lease is assumed to be shorter than it is. Two clocks drift apart
// by 1000 ppm at most while NTP slews both as far as it goes; the margin is twice that, and 2 ms
// for Redis's millisecond grain.
func Margin(length time.Duration) time.Duration { return length/500 + 2*time.Millisecond }

// RoundMost returns how long a round of requests for leases may take, the longest of which has that
// length. If Redis hangs, that is told, and the next round must not be delayed for long. But a
// round trip may take a second, or half of a short lease.
func RoundMost(longest time.Duration) time.Duration {
	return max(longest/12, min(longest/2, time.Second), 20*time.Millisecond)
}

// CertainUntil returns the local deadline of a lease whose acquisition or renewal was sent then.
func CertainUntil(length time.Duration, sent int64) int64 { return sent + int64(length-Margin(length)) }

// Granted records that another's release has granted l, at l.Since, for a term that ends at until.
// The term may be a claim.
func (l *Lease) Granted(term time.Duration, until int64, claim bool) {
	l.Began = l.Since
	l.Deadline.Store(until)
	if claim {
		l.claim.Store(int64(term))
	}
}

// Acquired records that the request sent at l.Sent has acquired l.
func (l *Lease) Acquired() {
	l.Began = l.Sent
	l.claim.Store(0)
	l.Deadline.Store(l.CertainUntil(l.Sent))
}

// Fresh reports whether enough of l is left for another goroutine to take it over: half of its
// length; of a claim a third, since it will soon be renewed.
func (l *Lease) Fresh(now int64) bool {
	least := int64(l.Length / 2)
	if claim := l.claim.Load(); claim > 0 {
		least = claim / 3
	}
	return l.Deadline.Load()-now >= least
}

// sent returns when the last acquisition or renewal was sent that has succeeded.
func (l *Lease) sent() int64 { return l.Deadline.Load() - l.CertainUntil(0) }

// Confirmed returns when Redis was last known to have l: when it was granted, or what has succeeded
// last was sent.
func (l *Lease) Confirmed() int64 {
	if l.claim.Load() > 0 {
		return l.Since
	}
	return l.sent()
}

// CertainUntil returns the deadline of l if its acquisition or renewal was sent then.
func (l *Lease) CertainUntil(sent int64) int64 { return CertainUntil(l.Length, sent) }

// nextRenewal returns when to renew l, whose last success was sent at sent, and how much earlier it
// may be renewed together with others.
func (l *Lease) nextRenewal(sent int64) (at int64, slack time.Duration) {
	if claim := l.claim.Load(); claim > 0 {
		return min(l.Since+int64(confirmAfter), l.Deadline.Load()-Early-claim/3), confirmTogether
	}
	at = sent + int64(l.Length/3)
	if l.Fixed || l.lengthAt(at) == 0 {
		at = Forever
	}
	return at, l.Length / 12
}

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
		return lockerr.ErrMaxHold
	case l.Fixed:
		return lockerr.ErrEnded
	}
	return lockerr.ErrExpired
}

// Certain reports whether l is held for certain.
func Certain(l *Lease, now int64) bool { return now < l.Deadline.Load() }

// ToRelease returns l for a release that is sent now.
func (l *Lease) ToRelease(now int64) *wire.Ref {
	if l.Rest != nil {
		if l.Rest.For = l.MinHold - time.Duration(now-l.Since); l.Rest.For > 0 {
			l.Rest.For += 2*time.Millisecond - 1 // Redis counts whole ones, of its clock too
		}
	}
	return &l.Ref
}

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
