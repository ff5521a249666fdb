package engine

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
)

// How every lock type ends a hold. Each of these asks the arbiter first what the unlock amounts
// to.

// Unlock ends one Lock, and releases the hold if it was the last one.
func (b *base) Unlock(ctx context.Context) error { return b.unlock(ctx, "unlock") }

func (b *base) unlock(ctx context.Context, op string) error {
	if err := b.usable(op); err != nil {
		return err
	}
	b.e.track()
	defer b.e.End()
	o := arbiter.OwnerOf(ctx)
	h, outcome := b.exit(o)
	return b.finish(ctx, op, o, h, outcome)
}

// ReleaseInBackground ends one Lock of o without waiting for Redis.
func (b *base) ReleaseInBackground(o *arbiter.Owner) {
	b.e.track() // nobody else would release what exit has ended
	defer b.e.End()
	h, outcome := b.exit(o)
	b.finishInBackground(h, outcome)
}

// giveBack ends one Lock of h, which was granted to a call that does not want it.
func (b *base) giveBack(h *lease.Hold) {
	h, outcome := b.afterExit(b.arb.giveBack(&b.handle, h))
	b.finishInBackground(h, outcome)
}

// exit ends one Lock of o in the arbiter.
func (b *base) exit(o *arbiter.Owner) (*lease.Hold, arbiter.Outcome) {
	return b.afterExit(b.arb.exit(&b.handle, o))
}

// afterExit handles a loss that the arbiter was the first to find: n holds on the lease of h
// had expired. For the caller such a hold was lost, like any other.
func (b *base) afterExit(h *lease.Hold, outcome arbiter.Outcome, n int) (*lease.Hold, arbiter.Outcome) {
	if outcome == arbiter.Expired {
		b.e.lost(h.Lease, lease.ErrExpired, n)
		outcome = arbiter.WasLost
	}
	return h, outcome
}

// finish completes an unlock by o, and returns its error.
func (b *base) finish(ctx context.Context, op string, o *arbiter.Owner, h *lease.Hold, outcome arbiter.Outcome) (err error) {
	switch outcome {
	case arbiter.NotHeld:
		return lockerr.New(op, b.Name(), lockerr.ErrNotHeld)
	case arbiter.WasLost:
		return lockerr.New(op, b.Name(), lockerr.ErrLost)
	case arbiter.Release:
		err = b.ended(ctx, op, h, b.e.release(ctx, h.Lease, unlockMost, false))
	case arbiter.Passed, arbiter.Left:
		b.reportReleased(ctx, h, nil)
	}
	if o != nil && h.Owner != o {
		// o's own hold was lost; an earlier unlock was counted for that one instead of for h.
		return lockerr.New(op, b.Name(), lockerr.ErrLost)
	}
	return err
}

// ended reports the end of h by a release, and returns the error of its Unlock: what Redis does
// not confirm was protected to its end all the same.
func (b *base) ended(ctx context.Context, op string, h *lease.Hold, r released) error {
	var err error
	switch {
	case !r.held:
		err = lockerr.New(op, b.Name(), lockerr.ErrLost, r.err)
	case r.err != nil:
		b.reportReleased(ctx, h, lockerr.New(op, b.Name(), r.err))
		return nil
	}
	b.reportReleased(ctx, h, err)
	return err
}

func (b *base) finishInBackground(h *lease.Hold, outcome arbiter.Outcome) {
	if outcome == arbiter.Release {
		b.e.releaseLater(h.Lease)
	}
}

// reportReleased reports the end of a hold by its last unlock.
func (b *base) reportReleased(ctx context.Context, h *lease.Hold, err error) {
	if report := b.e.Config.Hooks.Released; report != nil {
		report(ctx, b.Name(), time.Duration(b.e.Clock.Now()-h.Since), err)
	}
}

// UnlockWithin ends one Lock of o. It gives Redis d to confirm the release, and then leaves it
// to the background, at 0 without asking first. It reports whether the lock was held until
// then; err tells why a release is not confirmed.
func (m *Mutex) UnlockWithin(ctx context.Context, o *arbiter.Owner, d time.Duration) (held bool, err error) {
	m.e.track()
	defer m.e.End()
	h, outcome := m.exit(o)
	if outcome != arbiter.Release {
		err = m.finish(ctx, "unlock", o, h, outcome)
		return err == nil, err
	}
	r := released{true, errNotAsked}
	if d > 0 {
		r = m.e.release(ctx, h.Lease, d, true)
	} else {
		m.e.releaseLater(h.Lease)
	}
	if err := m.ended(ctx, "unlock", h, r); err != nil {
		return false, err
	}
	return true, r.err
}

var errNotAsked = errors.New("the deployment did not answer lately; it is released in the background")
