package engine

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How a lease is released in Redis. Each of these stops its renewal first, then sends the
// release, and at last lets the arbiter's next waiter ask.

// release blocks until l is released, or has expired.
func (e *Engine) release(ctx context.Context, l *lease.Lease) error {
	io := e.proto.NewContext(ctx)
	e.watchdog.Stop(l, io)
	heard := e.broker.Heard(l.Keys.Channel)
	told, err := e.sendRelease(io, l)
	e.watchdog.Remove(l)
	if told >= 0 && err == nil && (l.Kind == wire.Plain || l.Kind == wire.Write) {
		e.endTurn(l, told, heard)
	}
	e.arbiters[l.Kind].released(l)
	if l.Indeterminate || err != nil && !errors.Is(err, lease.ErrGone) {
		e.cleaner.Add(l, l.Indeterminate, nil) // its key may outlive our deadline
	}
	io.Free()
	return err
}

// releaseTogether releases leases of Mutexes in one slot with one script, and what that leaves
// one by one.
func (e *Engine) releaseTogether(ctx context.Context, ls []*lease.Lease) []error {
	errs := make([]error, len(ls))
	io := e.proto.NewContext(ctx)
	least := transport.Patience
	heard := make([]pubsub.Heard, len(ls))
	for i, l := range ls {
		e.watchdog.Stop(l, io)
		heard[i] = e.broker.Heard(l.Keys.Channel)
		least = min(least, e.Left(l))
	}
	io.Bound(e.proto.Conn, least)
	told, err := e.proto.ReleaseSome(io, lease.Refs(ls))
	for i, l := range ls {
		if err == nil && told[i] >= 0 {
			e.confirmed(l, told[i], heard[i])
		}
	}
	for i, l := range ls {
		if err != nil || told[i] < 0 {
			errs[i] = e.release(ctx, l) // finds out why
			if err != nil && errors.Is(errs[i], lease.ErrGone) {
				errs[i] = nil // the script was executed, its reply was lost
			}
		}
	}
	io.Free()
	return errs
}

// confirmed completes a release that Redis confirmed; told is -1 if the hold was gone.
func (e *Engine) confirmed(l *lease.Lease, told int64, heard pubsub.Heard) {
	if told >= 0 {
		e.endTurn(l, told, heard)
	}
	e.watchdog.Remove(l)
	e.arbiters[l.Kind].released(l)
	if l.Indeterminate {
		e.cleaner.Add(l, true, nil)
	}
}

// releaseWithin gives Redis d to confirm the release of a Mutex, and then leaves it to the
// cleaner. It reports whether Redis still had the hold, as far as that is known.
func (e *Engine) releaseWithin(ctx context.Context, l *lease.Lease, d time.Duration) (held bool, err error) {
	io := e.proto.NewContext(ctx)
	e.watchdog.Stop(l, io)
	timer := time.AfterFunc(d, func() { e.watchdog.Cancel(l, io) })
	io.Bound(e.proto.Conn, min(d, e.Left(l)))
	heard := e.broker.Heard(l.Keys.Channel)
	told, err := e.proto.Release(io, &l.Ref)
	timer.Stop()
	if err != nil {
		e.releaseLater(l) // replaces io in the watchdog, so that io may be freed
		io.Free()
		return true, lockerr.New("unlock", e.nameOf(l.Keys.Name), err)
	}
	e.confirmed(l, told, heard)
	io.Free()
	if told < 0 {
		return false, lockerr.New("unlock", e.nameOf(l.Keys.Name), lockerr.ErrLost, lease.ErrGone)
	}
	return true, nil
}

// sendRelease sends the release until Redis confirms it or io ends. It returns how many
// subscribers were told.
func (e *Engine) sendRelease(io *transport.Context, l *lease.Lease) (told int64, err error) {
	backoff := timing.MinBackoff
	for again := false; ; again = true {
		io.Bound(e.proto.Conn, e.Left(l))
		told, err = e.proto.Release(io, &l.Ref)
		switch {
		case err == nil && (told >= 0 || again):
			return told, nil // gone already: the request before was executed
		case err == nil:
			return told, lockerr.New("unlock", e.nameOf(l.Keys.Name), lockerr.ErrLost, lease.ErrGone)
		case io.Err() != nil:
			return -1, lockerr.New("unlock", e.nameOf(l.Keys.Name), lockerr.ErrLost, lease.ErrEnded)
		case !retryRelease(err):
			return -1, lockerr.New("unlock", e.nameOf(l.Keys.Name), lockerr.ErrLost, err, errNotReleased)
		}
		timer := time.NewTimer(timing.Jitter(backoff))
		select {
		case <-timer.C:
		case <-io.Done():
			timer.Stop()
			return -1, lockerr.New("unlock", e.nameOf(l.Keys.Name), lockerr.ErrLost, lease.ErrEnded, err)
		}
		backoff = min(2*backoff, timing.MaxBackoff)
	}
}

var errNotReleased = errors.New("the key stays until its lease ends")

// retryRelease reports whether a release that failed with err may succeed later.
func retryRelease(err error) bool {
	if code, ok := transport.Code(err); ok && code == "MISCONF" {
		return true
	}
	return transport.Transient(err)
}

// releaseLater releases l in the background.
func (e *Engine) releaseLater(l *lease.Lease) {
	e.watchdog.Stop(l, transport.Background())
	e.cleaner.Add(l, l.Indeterminate, func() {
		e.watchdog.Remove(l)
		e.arbiters[l.Kind].released(l)
	})
}
