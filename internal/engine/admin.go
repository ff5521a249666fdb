package engine

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Inspect returns what Redis knows of the locks of a name, Redisson's included. It changes
// nothing.
func (e *Engine) Inspect(ctx context.Context, name string) (in wire.State, err error) {
	err = e.admin(ctx, "inspect", name, func(ctx context.Context, key string) error {
		in, err = e.proto.Inspect(ctx, key)
		return err
	})
	return in, err
}

// ForceUnlock opens the lock of a name, and reports whether it was locked. Its holders lose it at
// once. If holders are given and others hold it, it does nothing and returns wire.ErrOtherHolder;
// of a semaphore it ends the permits of these.
func (e *Engine) ForceUnlock(ctx context.Context, name string, holders ...string) (was bool, err error) {
	err = e.admin(ctx, "force unlock", name, func(ctx context.Context, key string) error {
		ours := e.leasesOf(key)
		if was, err = e.proto.Force(ctx, key, holders...); err != nil {
			return err
		}
		for _, l := range ours { // the message says the same, but later
			if len(holders) == 0 || slices.Contains(holders, forcedID(l)) {
				e.Lost(l, lockerr.ErrForced)
			}
		}
		return nil
	})
	return was, err
}

// admin does something to the locks of a name.
func (e *Engine) admin(ctx context.Context, op, name string, do func(ctx context.Context, key string) error) error {
	err := wire.CheckName(e.Config.Prefix, name)
	switch {
	case err != nil:
		return lockerr.New(op, name, err)
	case ctx.Err() != nil:
		return lockerr.Ended(op, name, ctx, nil)
	case !e.Begin():
		return lockerr.New(op, name, lockerr.ErrClosed)
	}
	defer e.End()
	sent := e.Clock.Now()
	err = do(transport.ForCaller(ctx, e.callCtx), e.keyOf(name))
	switch {
	case err != nil && ctx.Err() != nil:
		return lockerr.Unavailable(op, name, ctx, nil)
	case err != nil && transport.IsContextError(err) && e.Closed():
		return lockerr.New(op, name, lockerr.ErrClosed)
	case err != nil:
		return unavailable(op, name, err, time.Duration(e.Clock.Now()-sent))
	}
	return nil
}
