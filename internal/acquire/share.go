package acquire

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
)

// What a Redlock has on one deployment: a lease that the watchdog renews, and of which no table
// knows.

// A Share is a lease of a Redlock, on one of its deployments.
type Share struct {
	*lease.Lease
	held atomic.Bool
	lost func(cause error) // is told, with no mutex locked, when it is lost
}

// Lose implements lease.Holder.
func (s *Share) Lose(_ *lease.Lease, cause error) (_ []*local.Hold, had bool) {
	if had = s.held.CompareAndSwap(true, false); had {
		s.lost(cause)
	}
	return nil, had
}

// Recall implements lease.Holder.
func (s *Share) Recall(*lease.Lease) {}

// TryShare makes one attempt to acquire l's lock, for maxHold at most unless that is 0. It returns
// nil without an error if the lock is taken. lost is called when the share is lost; ReleaseShare or
// DropShare must be called if it is not. repairs: it is for a Redlock that is held already.
func (l *Lock) TryShare(
	ctx context.Context, maxHold time.Duration, repairs bool, lost func(cause error),
) (*Share, error) {
	switch {
	case l.config.Err != nil:
		return nil, lockerr.New("lock", l.Name(), l.config.Err)
	case !l.n.Calls.Begin():
		return nil, lockerr.ErrClosed
	}
	defer l.n.Calls.End()
	if l.n.Drained() && !repairs {
		return nil, lockerr.ErrClosed
	}
	s := &Share{lost: lost}
	a := &acquisition{Lock: l, io: transport.ForCaller(ctx, l.n.Closing), c: new(Call), call: new(local.Call), apart: true}
	s.Lease = a.newLease()
	s.Of = s
	if maxHold > 0 {
		s.Length = min(s.Length, maxHold.Truncate(time.Millisecond))
	}
	a.lease = s.Lease
	l.n.Leases.Add(a.lease)
	r, err := a.send(false)
	if !r.Granted {
		a.giveUp()
		return nil, transport.Unanswered(err, time.Duration(s.Since-s.Sent))
	}
	s.SetNote(l.config.Note, true)
	a.granted()
	s.held.Store(true)
	l.n.took(s.Lease, maxHold)
	return s, nil
}

// RaiseShare raises the last token of l's lock to at least token where s holds it, and reports
// whether it does.
func (l *Lock) RaiseShare(ctx context.Context, s *Share, token int64) (held bool, err error) {
	if !l.n.Calls.Begin() {
		return false, lockerr.ErrClosed
	}
	defer l.n.Calls.End()
	sent := l.n.Clock.Now()
	held, err = l.n.Proto.Raise(transport.ForCaller(ctx, l.n.Closing), &s.Ref, token)
	return held, transport.Unanswered(err, time.Duration(l.n.Clock.Now()-sent))
}

// ReleaseShare releases a share, as Unlock does. It reports whether it was held until then; err
// tells why the release is not confirmed.
func (l *Lock) ReleaseShare(ctx context.Context, s *Share) (held bool, err error) {
	l.n.Calls.Track()
	defer l.n.Calls.End()
	if !s.held.CompareAndSwap(true, false) {
		return false, nil // lost
	}
	if !s.Valid(l.n.Clock.Now()) {
		l.n.released(s.Lease)
		l.n.Cleaner.Add(s.Lease, s.Indeterminate, nil)
		return false, nil
	}
	err = l.n.release(ctx, s.Lease)
	return !errors.Is(err, lockerr.ErrLost), err
}

// DropShare releases a share in the background.
func (l *Lock) DropShare(s *Share) {
	l.n.Calls.Track()
	defer l.n.Calls.End()
	if s.held.CompareAndSwap(true, false) {
		l.n.releaseLater(s.Lease)
	}
}

// ShareLeft returns how long a share is valid.
func (l *Lock) ShareLeft(s *Share) time.Duration {
	return time.Duration(s.Deadline.Load() - l.n.Clock.Now())
}
