package lease

import (
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/local"
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

	// A grant timeout becomes a lease after confirmAfter: until then a short section has ended, and
	// costs no renewal. Those due within confirmTogether are renewed with it.
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
// Fixed is what the caller wants; Indeterminate is what Redis has left open.
type Lease struct {
	wire.Ref
	local.Lease
	Of Holder // whose it is

	// Written before the watchdog knows the lease, or by the call that owns it.
	Sent          int64         // when the acquisition was sent
	Since         int64         // when it was acquired
	Began         int64         // when its time began to count: Since if another's release has granted it, else Sent
	MinHold       time.Duration // from Since, for which the lock stays taken after its release, once Rests
	Rests         bool
	Again         bool // the session had the lock before as well, or nobody had it lately: it is worth keeping
	Fixed         bool // the caller wants it not to be renewed
	Indeterminate bool // a request got no reply and may still be executed
	Queued        bool // it may have an entry in the queue, or another's release may grant it

	// What messages have said of it, which may overtake the reply that grants it.
	Wanted atomic.Bool // another session waits for the lock
	Forced atomic.Bool // somebody has forced the lock open

	resumed atomic.Int64 // when the present hold has got it, or taken it over; 0: it is kept
	checked atomic.Bool  // its renewal is due early, if that hold lasts; changed under Watchdog.mu
	noted   atomic.Bool  // a hold on it had a note

	// Guarded by the keeper.
	kept timing.Timer[*Lease] // until when it is kept

	// Guarded by Watchdog.mu.
	deadline timing.Timer[*Lease] // Early before Deadline, or when to cancel release
	renewal  timing.Timer[*Lease]
	release  *transport.Context
	counted  bool  // in Watchdog.held
	end      int64 // it must not last longer, here or in Redis; 0: no bound
	note     note
}

// A note says for people who has the lock and why: that of the present hold, and the one in Redis. A
// renewal writes it if they differ.
type note struct{ now, written string }

// SetNote sets the note of the first hold. It is in Redis if the request that acquired l had it, not
// if the lock was granted later. The watchdog does not know l yet.
func (l *Lease) SetNote(text string, written bool) {
	l.note.now = text
	if written {
		l.note.written = text
	}
	l.noted.Store(text != "")
}

// A Holder has leases: a table of this process, a hold, or a Redlock.
type Holder interface {
	// Lose ends the holds on l, and returns them. had reports that the holder had l until now.
	Lose(l *Lease, cause error) (holds []*local.Hold, had bool)

	// Recall tells that another session waits for the lock.
	Recall(l *Lease)
}

// Of returns the lease that a table or a hold knows as l.
func Of(l *local.Lease) *Lease { return l.For.(*Lease) }

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
// The term may be a grant timeout.
func (l *Lease) Granted(term time.Duration, until int64, claim bool) {
	l.Began = l.Since
	l.Deadline.Store(until)
	if l.Known.Store(until - CertainUntil(term, 0)); claim {
		l.Known.Store(l.Since)
		l.Grant.Store(int64(term))
	}
}

// Acquired records that the request sent at l.Sent has acquired l.
func (l *Lease) Acquired() {
	l.Began = l.Sent
	l.confirmed(l.Length, l.Sent)
}

// confirmed records that Redis has l for that length, by a request that was sent then.
func (l *Lease) confirmed(length time.Duration, sent int64) {
	l.Grant.Store(0)
	l.Known.Store(sent)
	l.Deadline.Store(CertainUntil(length, sent))
}

// CertainUntil returns the deadline of l if its acquisition or renewal was sent then.
func (l *Lease) CertainUntil(sent int64) int64 { return CertainUntil(l.Length, sent) }

// nextRenewal returns when to renew l, whose last success was sent at sent, and how much earlier it
// may be renewed together with others.
func (l *Lease) nextRenewal(sent int64) (at int64, slack time.Duration) {
	if claim := l.Grant.Load(); claim > 0 {
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

// ToRelease returns l for a release that is sent now.
func (l *Lease) ToRelease(now int64) *wire.Ref {
	if l.Rests {
		if l.Rest = l.MinHold - time.Duration(now-l.Since); l.Rest > 0 {
			l.Rest += 2*time.Millisecond - 1 // Redis counts whole ones, of its clock too
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
