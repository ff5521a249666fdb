package engine

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// A Reader is the read side of an RWMutex. All readers of an engine share one read lease. They
// join it without asking Redis for one tenure after Redis last said that no writer waits. A
// reader whose lease has another length, or is bounded, has a lease of its own.
type Reader struct{ base }

// Lock locks r for reading.
func (r *Reader) Lock(ctx context.Context) error {
	if r.join(ctx) {
		return nil
	}
	_, err := r.call(ctx, "rlock", true, r.lock)
	return err
}

// TryLock makes one attempt to lock r for reading. It fails while a writer waits.
func (r *Reader) TryLock(ctx context.Context) (bool, error) {
	if r.join(ctx) {
		return true, nil
	}
	return r.call(ctx, "try rlock", false, r.lock)
}

// Unlock ends one Lock of r. The last reader of the engine releases the shared lease.
func (r *Reader) Unlock(ctx context.Context) error { return r.unlock(ctx, "runlock") }

// Remaining returns how long the hold of o goes on at most: an anonymous caller may have
// several with a duration of their own.
func (r *Reader) Remaining(o *arbiter.Owner) time.Duration {
	h := r.HoldOf(o)
	if h == nil || r.config.Passable() {
		return time.Duration(lease.Forever)
	}
	return time.Duration(h.Lease.Ends() - r.e.Clock.Now())
}

// join locks r without asking Redis, if that is possible and no hook must be called.
func (r *Reader) join(ctx context.Context) bool {
	return r.handle.Valid() && r.config.Err == nil && r.e.audience == nil && ctx.Err() == nil &&
		r.arb.Join(&r.handle, arbiter.OwnerOf(ctx), r.shares())
}

func (r *Reader) lock(ctx context.Context, o *arbiter.Owner, op string, wait bool, a *Acquired) (bool, error) {
	w := r.waiter(o)
	defer r.arb.Free(w)
	w.Inside = wait && r.part().readAround(ctx)
	if ask, ok, err := r.turn(ctx, op, w, wait, a); !ask {
		return ok, err
	}
	c := readCall{attempt: r.attempt(ctx, op, w, wait, a)}
	c.ask = c.askRedis
	h, err := c.acquire()
	if h == nil {
		r.arb.Quit(w)
		return false, err
	}
	a.Hold, a.Handoff = h, c.shared
	return true, nil
}

// readCall is one call of Lock or TryLock while it asks Redis.
type readCall struct {
	attempt
	st     arbiter.Standing[*lease.Lease]
	shared bool // the hold is on a lease that this process had
}

// acquire acquires a read lease, or joins the shared one if Redis says that more readers may. It
// returns neither hold nor error if the call does not wait and the lock is taken.
func (c *readCall) acquire() (h *lease.Hold, err error) {
	for {
		h, c.st = c.arb.Standing(c.w)
		switch {
		case h != nil:
			c.shared = true
			return h, nil
		case c.st.Refused:
			return nil, lockerr.New(c.op, c.Name(), lockerr.ErrUnlockFirst)
		case c.st.Confirm && !lease.Certain(c.st.Read, c.e.Clock.Now()):
			c.e.lose(c.st.Read, lease.ErrExpired)
			continue
		}
		l, err := c.contend(nil)
		switch {
		case err != nil || l == nil && !c.wait:
			return nil, err
		case l == nil:
			continue // the owner has got another hold, with which the call may enter
		}
		if h := c.enter(l); h != nil {
			return h, nil
		}
	}
}

// askRedis asks for the read side; at first also for the shared lease.
func (c *readCall) askRedis(l *lease.Lease, queue bool) (reply int64, ttl time.Duration, err error) {
	writer, join := "", ""
	if c.st.Writes {
		writer = c.st.Write.ID
	}
	if c.st.Confirm && queue == c.wait {
		join = c.st.Read.ID
	}
	reply, ttl, err = c.e.proto.AcquireRead(c.io, &l.Ref, c.leaseMS(), writer, join, queue)
	if err != nil || reply <= 0 {
		c.arb.Refused(c.w, err != nil)
	}
	return reply, ttl, err
}

// enter follows a reply to l that is no refusal. It returns nil if the call must ask again.
func (c *readCall) enter(l *lease.Lease) (h *lease.Hold) {
	reply := l.Token
	l.Token = 0 // readers have no token
	switch reply {
	case wire.ReadGone:
		c.e.lose(c.st.Read, lease.ErrGone)
		return nil
	case wire.ReadOther:
		c.shared = true
		h, _ = c.arb.GrantRead(c.w, c.st.Read, false, l.Sent+int64(c.e.Config.Tenure))
		return h
	}
	joinUntil := int64(0)
	if reply == wire.ReadJoin {
		joinUntil = l.Began + int64(c.e.Config.Tenure)
	}
	switch {
	case c.config.Fixed:
		l.Top = l.CertainUntil(l.Began)
	case !l.Renewed:
		l.Top = l.Began + int64(c.config.MaxHold)
	default:
		l.Top = lease.Forever
	}
	h, used := c.arb.GrantRead(c.w, l, true, joinUntil)
	if used {
		c.e.took(l, c.config.MaxHold)
		return h
	}
	c.e.releaseLater(l) // another reader of this owner or of this process was faster
	c.shared = true
	return h
}
