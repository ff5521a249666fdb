package relock

import (
	"context"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/wire"
)

// Adopt takes over the lock that [Hold.Handoff] has left to the ticket, and returns a [Hold] of it:
// for the owner in ctx if there is one, with a larger token, and a lease as opts and the session
// say, which is renewed. The session needs the prefix and the Redis of the session that has handed
// the lock off.
//
// It never waits for the lock, only for Redis, as Lock does: while connections are lost, until ctx
// ends or [WithWait] is over. The error is [ErrLost] if there is nothing to adopt: it is also
// [ErrExpired] after the end of the ticket, and [ErrGone] if it was used, or if the lock was forced
// open or is gone with its Redis. A text that is not a ticket, and a ticket of another prefix, are
// refused without a round trip. After an error of ctx or Redis the ticket may be used up: what this
// call may have got is released in the background, or expires with its lease. Safe for concurrent
// use.
func (s *Session) Adopt(ctx context.Context, ticket string, opts ...LockOption) (*Hold, error) {
	t, err := s.e.ReadTicket(ticket)
	if err != nil {
		return nil, err
	}
	l := s.lock(wire.Plain, t.Name, lockConfigOf(opts))
	held, err := l.Adopt(ctx, arbiter.OwnerOf(ctx), t)
	if err != nil {
		return nil, err
	}
	return &Hold{l: l, held: held}, nil
}
