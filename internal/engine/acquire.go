package engine

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// ErrLate: a lease expired before its grant arrived.
var ErrLate = errors.New("the reply came after the lease it grants had ended")

// newLease returns a lease with a new id, not yet acquired.
func (b *base) newLease() *lease.Lease {
	return &lease.Lease{
		Ref: wire.Ref{
			Keys: &b.keys, Kind: b.kind, ID: b.e.newID(b.kind), Length: b.config.Lease, Claim: wire.ClaimOf(b.config.Lease),
			Renewed: b.config.Passable(),
		},
		Fixed: b.config.Fixed,
	}
}

// request sends one request for l. A positive reply is a grant, and becomes l.Token.
func (a *attempt) request(l *lease.Lease, send func() (int64, time.Duration, error)) (ttl time.Duration, err error) {
	for resent := false; ; resent = true {
		l.Sent = a.e.Clock.Now()
		a.asked = l.Sent
		token, ttl, err := send()
		l.Since = a.e.Clock.Now()
		if err != nil {
			if code, answered := transport.Code(err); !answered || token > 0 { // or too few replicas have it
				l.Indeterminate = true
			} else if transport.Interrupted(err) || !transport.Transient(err) && code != wire.CodeNotLock {
				a.halfway = true
			}
			return 0, err
		}
		if token <= 0 {
			return ttl, nil
		}
		l.Acquired()
		if lease.Certain(l, l.Since+lease.Early) {
			l.Token = token
			return 0, nil
		}
		// Sent too long ago to be certain. The same request starts the lease again.
		l.Indeterminate = true
		if resent {
			a.discard(l)
			return 0, ErrLate
		}
	}
}

// discard leaves what Redis may have granted to l to the cleaner, and gives l a new id.
func (a *attempt) discard(l *lease.Lease) {
	old := &lease.Lease{Ref: l.Ref}
	a.e.cleaner.Add(old, true, nil) // an earlier request may have got no reply
	l.ID = a.e.newID(l.Kind)
}

// took registers a lease with the watchdog. It comes after the grant to a local hold, so that
// a loss finds the hold.
func (e *Engine) took(l *lease.Lease, maxHold time.Duration) {
	e.watchdog.Add(l, maxHold)
	if e.forces.has(forcedID(l), l.Sent) {
		e.lose(l, lease.ErrForced)
	}
}

// pass decides for the arbiter whether a lease may go to another goroutine, which wants one of
// that length, and returns its next token.
func (e *Engine) pass(l *lease.Lease, length, now int64) (token int64, ok bool) {
	if !l.Renewed || int64(l.Length) != length || now-l.Since >= int64(e.Config.Tenure) || l.Token >= l.Top ||
		!l.Fresh(now) || e.Closed() {
		return 0, false
	}
	l.Token++
	return l.Token, true
}

// Left returns how long l is certain.
func (e *Engine) Left(l *lease.Lease) time.Duration {
	return time.Duration(l.Deadline.Load() - e.Clock.Now())
}
