package engine

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// How every lock type ends a hold. Each of these asks the arbiter first what the unlock amounts
// to.

// Unlock ends one Lock, and releases the hold if it was the last one.
func (b *base) Unlock(ctx context.Context) error { return b.unlock(ctx, "unlock") }

func (b *base) unlock(ctx context.Context, op string) error {
	if err := b.usable(op); err != nil {
		return err
	}
	o := arbiter.OwnerOf(ctx)
	if o != nil && b.kind != wire.Read && b.arb.ExitInner(&b.handle, o) {
		return nil
	}
	b.e.track()
	defer b.e.End()
	return b.finish(ctx, op, o, b.exit(o))
}

// ReleaseInBackground ends one Lock of o without waiting for Redis. ctx is for observers.
func (b *base) ReleaseInBackground(ctx context.Context, o *arbiter.Owner) {
	b.e.track() // nobody else would release what exit has ended
	defer b.e.End()
	x := b.exit(o)
	b.finishInBackground(x)
	b.reportReleased(ctx, x, nil)
}

// giveBack ends one Lock of h, which was granted to a call that does not want it, and of which
// nobody was told.
func (b *base) giveBack(h *lease.Hold) {
	b.finishInBackground(b.afterExit(b.arb.Return(&b.handle, h)))
}

// exited is what an unlock amounts to.
type exited struct {
	h       *lease.Hold
	outcome arbiter.Outcome
	told    *Unlocked // nil if it is not the last one, or there is nobody to tell
}

// exit ends one Lock of o in the arbiter.
func (b *base) exit(o *arbiter.Owner) exited {
	x := b.afterExit(b.arb.Exit(&b.handle, o, b.side()))
	last := x.outcome == arbiter.Release || x.outcome == arbiter.Passed || x.outcome == arbiter.Left
	if last && b.e.audience != nil {
		x.told = NewUnlocked(x.h, b.e.Clock.Now())
	}
	return x
}

// afterExit handles a loss that the arbiter was the first to find: the holds on the lease of h
// had expired. For the caller such a hold was lost, like any other.
func (b *base) afterExit(h *lease.Hold, outcome arbiter.Outcome, lost []*lease.Hold) exited {
	if outcome == arbiter.Expired {
		b.e.lost(h.Lease, lease.ErrExpired, lost)
		outcome = arbiter.WasLost
	}
	return exited{h: h, outcome: outcome}
}

// finish completes an unlock by o, and returns its error.
func (b *base) finish(ctx context.Context, op string, o *arbiter.Owner, x exited) (err error) {
	switch x.outcome {
	case arbiter.NotHeld:
		return lockerr.New(op, b.Name(), lockerr.ErrNotHeld)
	case arbiter.WasLost:
		return lockerr.New(op, b.Name(), lockerr.ErrLost)
	case arbiter.Release:
		err = b.ended(ctx, op, x, b.e.release(ctx, x.h.Lease, unlockMost, false))
	case arbiter.Passed, arbiter.Left:
		b.reportReleased(ctx, x, nil)
	}
	if o != nil && x.h.Owner != o {
		// o's own hold was lost; an earlier unlock was counted for that one instead of for h.
		return lockerr.New(op, b.Name(), lockerr.ErrLost)
	}
	return err
}

// ended reports the end of a hold by a release, and returns the error of its Unlock: what Redis
// does not confirm was protected to its end all the same.
func (b *base) ended(ctx context.Context, op string, x exited, r released) (err error) {
	switch {
	case !r.held:
		x.h.LossReported(lease.ErrGone) // of a group, it is the cause
		x.told.Lost(b.e.audience, b.end(lease.ErrGone))
		return lockerr.New(op, b.Name(), lockerr.ErrLost, r.err)
	case r.err != nil:
		err = lockerr.New(op, b.Name(), r.err)
	}
	b.reportReleased(ctx, x, err)
	return nil
}

func (b *base) finishInBackground(x exited) {
	if x.outcome == arbiter.Release {
		b.e.releaseLater(x.h.Lease)
	}
}

// reportReleased reports the end of a hold by its last unlock.
func (b *base) reportReleased(ctx context.Context, x exited, err error) {
	if b.e.audience != nil {
		x.told.Report(ctx, b.e.audience, b.end(err))
	}
}

func (b *base) end(err error) Ended { return Ended{Name: b.Name(), Kind: kinds[b.kind], Err: err} }

// UnlockWithin ends one Lock of o. It gives Redis d to confirm the release, and then leaves it
// to the background, at 0 without asking first. It reports whether the lock was held until
// then; err tells why a release is not confirmed.
func (m *Mutex) UnlockWithin(ctx context.Context, o *arbiter.Owner, d time.Duration) (held bool, err error) {
	m.e.track()
	defer m.e.End()
	x := m.exit(o)
	if x.outcome != arbiter.Release {
		err = m.finish(ctx, "unlock", o, x)
		return err == nil, err
	}
	r := released{true, errNotAsked}
	if d > 0 {
		r = m.e.release(ctx, x.h.Lease, d, true)
	} else {
		x.h.Lease.Late.Store(true)
		m.e.releaseLater(x.h.Lease)
	}
	if err := m.ended(ctx, "unlock", x, r); err != nil {
		return false, err
	}
	return true, r.err
}

var errNotAsked = errors.New("the deployment did not answer lately; it is released in the background")
