package engine

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Inspect returns what Redis knows of the locks of a name, Redisson's included. It changes
// nothing.
func (e *Engine) Inspect(ctx context.Context, name string) (wire.State, error) {
	const op = "inspect"
	if err := e.beginAdmin(ctx, op, name); err != nil {
		return wire.State{}, err
	}
	defer e.End()
	in, err := e.proto.Inspect(transport.ForCaller(ctx, e.callCtx), e.keyOf(name))
	if err != nil {
		return wire.State{}, e.adminErr(ctx, op, name, err)
	}
	return in, nil
}

// ForceUnlock opens the lock of a name, and reports whether it was locked. Its holders lose it at
// once. If holders are given and others hold it, it does nothing and returns wire.ErrOtherHolder.
func (e *Engine) ForceUnlock(ctx context.Context, name string, holders ...string) (bool, error) {
	const op = "force unlock"
	if err := e.beginAdmin(ctx, op, name); err != nil {
		return false, err
	}
	defer e.End()
	key := e.keyOf(name)
	ours := e.leasesOf(key)
	was, err := e.proto.Force(transport.ForCaller(ctx, e.callCtx), key, holders...)
	if err != nil {
		return false, e.adminErr(ctx, op, name, err)
	}
	for _, l := range ours { // the message says the same, but later
		e.lose(l, lease.ErrForced)
	}
	return was, nil
}

// beginAdmin begins an operation on a name. If it returns nil, End must follow.
func (e *Engine) beginAdmin(ctx context.Context, op, name string) error {
	if err := wire.CheckName(e.Config.Prefix, name); err != nil {
		return lockerr.New(op, name, err)
	}
	if ctx.Err() != nil {
		return lockerr.Ended(op, name, ctx, nil)
	}
	if !e.Begin() {
		return lockerr.New(op, name, lockerr.ErrClosed)
	}
	return nil
}

func (e *Engine) adminErr(ctx context.Context, op, name string, err error) error {
	if ctx.Err() != nil {
		return lockerr.Ended(op, name, ctx, nil)
	}
	if transport.IsContextError(err) && e.Closed() {
		return lockerr.New(op, name, lockerr.ErrClosed)
	}
	return lockerr.New(op, name, err)
}
