package engine

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// What a Redlock has on one deployment: a lease that the watchdog renews, and that no arbiter
// knows.

// TryPart makes one attempt to acquire l's lock, for maxHold at most unless that is 0. It returns
// nil without an error if the lock is taken. lost is called, with no mutex locked, when the lease
// is lost; ReleasePart or DropPart must be called if it is not. repairs: it is for a Redlock that
// is held already.
func (l *Lock) TryPart(
	ctx context.Context, maxHold time.Duration, repairs bool, lost func(cause error),
) (*lease.Lease, error) {
	switch {
	case l.config.Err != nil:
		return nil, lockerr.New("lock", l.Name(), l.config.Err)
	case !l.e.Begin():
		return nil, lockerr.ErrClosed
	}
	defer l.e.End()
	if l.e.Draining() && !repairs {
		return nil, lockerr.ErrClosed
	}
	a := attempt{Lock: l}
	p := a.newLease()
	if maxHold > 0 {
		p.Length = min(p.Length, maxHold.Truncate(time.Millisecond))
	}
	ask := func() (int64, error) {
		p.Sent = l.e.Clock.Now()
		r, err := l.e.proto.Acquire(transport.ForCaller(ctx, l.e.callCtx), &p.Ref, wire.Ask{LeaseMS: wire.Millis(p.Length)})
		return r.Token, err
	}
	token, err := ask()
	broken := transport.Broken(err)
	if broken {
		token, err = ask()
	}
	p.Since = l.e.Clock.Now()
	if err == nil && token > 0 {
		if p.Acquired(); lease.Certain(p, p.Since+lease.Early) {
			p.Token, p.OnLost = token, lost
			l.e.parts.Store(forcedID(p), p)
			l.e.took(p, maxHold)
			return p, nil
		}
		err = ErrLate
	}
	if p.Indeterminate = broken || err == ErrLate || err != nil && (token > 0 || undecided(err)); p.Indeterminate {
		l.e.cleaner.Add(p, true, nil)
	}
	return nil, transport.Unanswered(err, time.Duration(p.Since-p.Sent))
}

// RaisePart raises the last token of l's lock to at least token where p holds it, and reports
// whether it does.
func (l *Lock) RaisePart(ctx context.Context, p *lease.Lease, token int64) (held bool, err error) {
	if !l.e.Begin() {
		return false, lockerr.ErrClosed
	}
	defer l.e.End()
	sent := l.e.Clock.Now()
	held, err = l.e.proto.Raise(transport.ForCaller(ctx, l.e.callCtx), &p.Ref, token)
	return held, transport.Unanswered(err, time.Duration(l.e.Clock.Now()-sent))
}

// ReleasePart releases a part, as Unlock does. It reports whether it was held until then; err tells
// why the release is not confirmed.
func (l *Lock) ReleasePart(ctx context.Context, p *lease.Lease) (held bool, err error) {
	l.e.track()
	defer l.e.End()
	if _, held := l.e.parts.LoadAndDelete(forcedID(p)); !held {
		return false, nil // lost
	}
	if !lease.Certain(p, l.e.Clock.Now()) {
		l.e.watchdog.Remove(p)
		l.e.cleaner.Add(p, p.Indeterminate, nil)
		return false, nil
	}
	err = l.e.release(ctx, p, 0)
	return !errors.Is(err, lockerr.ErrLost), err
}

// DropPart releases a part in the background.
func (l *Lock) DropPart(p *lease.Lease) {
	l.e.track()
	defer l.e.End()
	if _, held := l.e.parts.LoadAndDelete(forcedID(p)); held {
		l.e.releaseLater(p)
	}
}

// PartLeft returns how long a part is certain.
func (l *Lock) PartLeft(p *lease.Lease) time.Duration {
	return time.Duration(p.Deadline.Load() - l.e.Clock.Now())
}
