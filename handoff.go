package relock

import (
	"context"
	"time"
)

// Handoff ends the hold of m here without unlocking, for another process to go on with it: it returns a ticket, a string,
// with which [Session.Adopt] has the lock. Until then the lock stays taken, and nothing renews it; if nobody comes within
// d it is free after that. Waiters keep their places. d is at least 10 ms, else the error is [ErrOption]; d counts from
// when Redis has the ticket.
//
// A ticket is a secret: who has it, and access to the same Redis, gets the lock. Do not log it. It contains the name of
// the lock, and works once.
//
// Handoff blocks until Redis has answered, ctx or the session ends, or the hold is lost. It ends the hold as Unlock does:
// [ErrNotHeld] if this owner holds nothing here, [ErrLost] with its cause if it is lost, and [ErrExpired] also if the
// ticket was over before Redis has answered. After another error the lock is being released in the background; what
// Redis may have of the ticket is free after d. Nothing has happened if d is out of range, ctx had ended before, the
// owner has locked more than once (unlock the inner ones first), or under the context of a [Do], which is to unlock.
// Options of the hold ([WithFixedLease], [WithMaxHold], [WithMinHold]) end with it.
func (m *Mutex) Handoff(ctx context.Context, d time.Duration) (ticket string, err error) {
	return m.l.HandOff(ctx, d)
}

// Adopt takes over the lock that [Mutex.Handoff] has left to the ticket, and returns a new handle that holds it: for the
// owner in ctx if there is one, with a larger token, and a lease as opts and the session say, which is renewed. The
// session has the same prefix and Redis as the one that has handed the lock off.
//
// It never waits for the lock, only for Redis, as Lock does: while connections are lost, until ctx ends or [WithWait] is
// over. The error is [ErrLost] if there is nothing to adopt: it is also [ErrExpired] after the end of the ticket, and
// [ErrGone] if it was used, or if the lock was forced open or is gone with its Redis. A text that is no ticket, and a
// ticket of another prefix, are refused without asking Redis. After an error of ctx or Redis the ticket may be used up:
// what this call may have got is released in the background, or expires with its lease. Safe for concurrent use.
func (s *Session) Adopt(ctx context.Context, ticket string, opts ...LockOption) (*Mutex, error) {
	t, err := s.e.ReadTicket(ticket)
	if err != nil {
		return nil, err
	}
	m := s.Mutex(t.Name, opts...)
	if err := m.l.Adopt(ctx, t); err != nil {
		return nil, err
	}
	return m, nil
}
