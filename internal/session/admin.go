package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Inspect returns what Redis knows of the locks of a name, Redisson's included. It changes
// nothing.
func (s *Session) Inspect(ctx context.Context, name string) (in wire.State, err error) {
	err = s.admin(ctx, "inspect", name, func(ctx context.Context, key string) error {
		in, err = s.Proto.Inspect(ctx, key)
		return err
	})
	return in, err
}

// ForceUnlock opens the lock of a name, and reports whether it was locked. Its holders lose it at
// once. If holders are given and others hold it, it does nothing and returns wire.ErrOtherHolder;
// of a semaphore it ends the permits of these.
func (s *Session) ForceUnlock(ctx context.Context, name string, holders ...string) (was bool, err error) {
	err = s.admin(ctx, "force unlock", name, func(ctx context.Context, key string) error {
		ours := slices.DeleteFunc(s.Watchdog.All(), func(l *lease.Lease) bool { return l.Keys.Name != key })
		if was, err = s.Proto.Force(ctx, key, holders...); err != nil {
			return err
		}
		for _, l := range ours { // the message says the same, but later
			if len(holders) == 0 || slices.Contains(holders, l.Name()) {
				s.Lost(l, lockerr.ErrForced)
			}
		}
		return nil
	})
	return was, err
}

// admin does something to the locks of a name.
func (s *Session) admin(ctx context.Context, op, name string, do func(ctx context.Context, key string) error) error {
	err := wire.CheckName(s.Config.Prefix, name)
	switch {
	case err != nil:
		return lockerr.New(op, name, err)
	case ctx.Err() != nil:
		return lockerr.Ended(op, name, ctx, nil)
	case !s.Calls.Begin():
		return lockerr.New(op, name, lockerr.ErrClosed)
	}
	defer s.Calls.End()
	sent, io := s.Clock.Now(), transport.ForCaller(ctx, s.Closing)
	if err = s.Proto.AwaitStart(io); err == nil {
		err = do(io, s.KeyOf(name))
	}
	switch {
	case errors.Is(err, wire.ErrOtherHolder):
		return lockerr.New(op, name, err)
	case err != nil && ctx.Err() != nil:
		return lockerr.Unavailable(op, name, ctx, nil)
	case err == lockerr.ErrClosed, err != nil && transport.IsContextError(err) && s.Closed():
		return lockerr.New(op, name, lockerr.ErrClosed)
	case err != nil:
		return acquire.Unavailable(op, name, err, time.Duration(s.Clock.Now()-sent))
	}
	return nil
}
