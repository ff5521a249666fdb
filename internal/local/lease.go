package local

import "sync/atomic"

// A Lease is what the process has of a lock in Redis, as far as a table must know.
type Lease struct {
	For   any   // the lease, as those know it who renew and release it
	Takes int64 // its length: calls that want leases of that length may take it over; 0: none may

	Deadline atomic.Int64 // it is valid until then; renewals move it
	Grant    atomic.Int64 // the grant timeout, until the grant has become a lease; 0: it has
	Known    atomic.Int64 // when Redis was last known to have it
	Late     atomic.Int64 // requests under its id that may still be executed; while there are any it is its hold's alone

	// Token is the current fencing token, Top the last of its block; a reader has none. Start is
	// when the hand-off window began. In a table, the mutex of the name guards them.
	Token, Top, Start int64
}

// Valid reports whether the process has the lease for certain.
func (l *Lease) Valid(now int64) bool { return now < l.Deadline.Load() }

// takeOver has the next call take l over, which wants leases of that length, and uses up the next
// token, which it returns. That may be before until, when the hand-off window ends, and if Redis was
// known to have l at heard.
func (l *Lease) takeOver(length, until, heard, now int64) (token int64, ok bool) {
	term := l.Takes // of which half must be left
	if grant := l.Grant.Load(); grant > 0 {
		term = grant
	}
	switch {
	case l.Takes == 0 || length != l.Takes || l.Late.Load() > 0:
	case now >= until || l.Deadline.Load()-now < term/2 || l.Known.Load() < heard:
	case l.Token >= l.Top:
	default:
		l.Token++
		return l.Token, true
	}
	return 0, false
}

// mayBeKept reports whether l may be kept while nobody uses it: somebody must be able to recall it.
func (l *Lease) mayBeKept(heard int64) bool {
	return l.Takes > 0 && heard != Never && l.Late.Load() == 0
}
