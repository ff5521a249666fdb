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
		s.lost(h.Lease, errExpired)
		return failed(op, b.keys.name, ErrLost)
	case arbiter.Release:
		err = s.unlocked(ctx, h.Lease)
	}
	if obs := s.cfg.observer; obs != nil && h.State() != arbiter.Live {
		obs.Released(ReleaseEvent{Name: b.keys.name, Held: time.Duration(s.clock.now() - h.Since), Err: err})
	}
	if own != nil {
		return own
	}
	return err
}

func holdDone(h *hold) <-chan struct{} {
	if h == nil {
		return arbiter.Closed
	}
	return h.Done()
}

func (b *lockBase) holdErr(h *hold) error {
	const op = "state of"
	switch {
	case b.s == nil:
		return errors.Join(errZero, ErrNotHeld)
	case h == nil:
		return failed(op, b.keys.name, ErrNotHeld)
	}
	switch h.State() {
	case arbiter.Lost:
		return failed(op, b.keys.name, ErrLost)
	case arbiter.Ended:
		return failed(op, b.keys.name, ErrNotHeld)
	}
	if b.s.clock.now() >= h.Lease.deadline.Load() {
		b.s.lose(h.Lease, errExpired)
		return failed(op, b.keys.name, ErrLost)
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
