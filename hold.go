package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// What every lock type tells of its latest hold, and how each ends one.

// exit does what an unlock by o comes to, once the arbiter has said what that is.
func (b *lockBase) exit(ctx context.Context, op string, o *arbiter.Owner, h *hold, outcome arbiter.Outcome) error {
	s := b.s
	var err, own error
	if h != nil && o != nil && h.Owner != o {
		own = failed(op, b.keys.name, ErrLost) // o's hold; h is the one whose unlock was taken for o's
	}
	switch outcome {
	case arbiter.NotHeld:
		return failed(op, b.keys.name, ErrNotHeld)
	case arbiter.WasLost:
		return failed(op, b.keys.name, ErrLost)
	case arbiter.Expired:
		s.lost(h.Lease, errExpired, 1)
		return failed(op, b.keys.name, ErrLost)
	case arbiter.Release:
		err = s.unlocked(ctx, h.Lease)
	}
	if outcome == arbiter.Left || h.State() != arbiter.Live {
		b.ended(h, err)
	}
	if own != nil {
		return own
	}
	return err
}

// ended reports the end of a hold by its last unlock.
func (b *lockBase) ended(h *hold, err error) {
	if obs := b.s.cfg.observer; obs != nil {
		obs.Released(ReleaseEvent{Name: b.keys.name, Held: time.Duration(b.s.clock.now() - h.Since), Err: err})
	}
}

func (b *lockBase) holdDone(h *hold) <-chan struct{} {
	if h == nil {
		return arbiter.Closed
	}
	b.noticeExpiry(h)
	return h.Done()
}

// noticeExpiry loses a hold that has run out, if the watchdog has not done so yet: a
// process that was frozen is told at its first look.
func (b *lockBase) noticeExpiry(h *hold) {
	if h.State() == arbiter.Live && !certain(h.Lease, b.s.clock.now()) {
		b.s.lose(h.Lease, errExpired)
	}
}

func (b *lockBase) holdErr(h *hold) error {
	const op = "state of"
	switch {
	case b.s == nil:
		return errors.Join(errZero, ErrNotHeld)
	case h == nil:
		return failed(op, b.keys.name, ErrNotHeld)
	}
	b.noticeExpiry(h)
	return stateErr(op, b.keys.name, h.State())
}

// stateErr is what Err returns for a hold in that state.
func stateErr(op, name string, s arbiter.State) error {
	switch s {
	case arbiter.Lost:
		return failed(op, name, ErrLost)
	case arbiter.Ended:
		return failed(op, name, ErrNotHeld)
	}
	return nil
}

func holdToken(h *hold) int64 {
	if h == nil || h.State() == arbiter.Ended {
		return 0
	}
	return h.Token
}

func (b *lockBase) holdDeadline(h *hold) (time.Time, bool) {
	if h == nil || h.State() != arbiter.Live {
		return time.Time{}, false
	}
	return b.s.clock.wall(h.Lease.deadline.Load()), true
}
