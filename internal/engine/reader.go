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
		r.e.rws.Join(&r.handle, arbiter.OwnerOf(ctx), r.shares())
}

func (r *Reader) lock(ctx context.Context, o *arbiter.Owner, op string, wait bool, a *Acquired) (bool, error) {
	w := r.waiter(o)
	defer r.arb.free(w)
	w.Inside = wait && r.part().readAround(ctx)
	switch r.arb.enter(w, wait) {
	case arbiter.Entered:
		return true, nil
	case arbiter.Joined:
		h, _ := r.arb.answer(w)
		a.Hold, a.Handoff = h, true
		return true, nil
	case arbiter.UnlockFirst:
		return false, lockerr.New(op, r.Name(), lockerr.ErrUnlockFirst)
	case arbiter.Busy:
		return false, nil
	case arbiter.Queued:
		h, ask, err := r.queued(ctx, op, w, a)
		a.Handoff = h != nil
		if !ask {
			return h != nil, err
		}
	}
	c := readCall{attempt: r.attempt(ctx, op, w, wait, a), l: r.newLease()}
	err := c.retry(c.try)
	if c.h != nil {
		a.Hold, a.Handoff = c.h, !c.used
		return true, nil
	}
	if c.l.Indeterminate || c.halfway || wait && c.tries > 0 {
		r.e.cleaner.Add(c.l, c.l.Indeterminate, nil) // removes the intent, too
	}
	r.arb.quit(w)
	return false, err
}

// readCall is one call of Lock or TryLock while it asks Redis.
type readCall struct {
	attempt
	l    *lease.Lease // to be acquired
	h    *lease.Hold  // the result
	used bool         // h is on l
}

// try asks once: for a read lease, or whether more readers may join the shared one.
func (c *readCall) try() (done bool, ttl time.Duration, err error) {
	for {
		h, st := c.e.rws.Standing(c.w)
		var reply int64
		switch {
		case h != nil:
			c.h = h
			if c.tries > 1 {
				c.e.cleaner.Add(c.l, c.l.Indeterminate, nil) // removes the intent
			}
			return true, 0, nil
		case st.Refused:
			return false, 0, lockerr.ErrUnlockFirst
		case st.Confirm:
			reply, ttl, err = c.confirm(st.Read)
		default:
			reply, ttl, err = c.acquire(st)
		}
		if err != nil || reply == 0 {
			c.e.rws.Refused(c.w, err != nil)
			return false, ttl, err
		}
		if c.h != nil {
			return true, 0, nil
		}
	}
}

// confirm asks whether more readers may join the shared read lease.
func (c *readCall) confirm(shared *lease.Lease) (reply int64, ttl time.Duration, err error) {
	sent := c.e.Clock.Now()
	if !lease.Certain(shared, sent) {
		c.e.lose(shared, lease.ErrExpired)
		return wire.ReadGone, 0, nil
	}
	reply, ttl, err = c.e.proto.ConfirmRead(c.io, &shared.Ref, &c.l.Ref, c.wait)
	switch {
	case err != nil || reply == 0:
	case reply == wire.ReadGone:
		c.e.lose(shared, lease.ErrGone)
	default:
		c.h, _ = c.e.rws.GrantRead(c.w, shared, false, c.joinUntil(reply, sent))
	}
	return reply, ttl, err
}

// acquire asks for a read lease.
func (c *readCall) acquire(st arbiter.Standing[*lease.Lease]) (reply int64, ttl time.Duration, err error) {
	writer := ""
	if st.Writes {
		writer = st.Write.ID
	}
	ttl, err = c.request(c.l, func() (int64, time.Duration, error) {
		return c.e.proto.AcquireRead(c.io, &c.l.Ref, c.leaseMS, writer, c.wait)
	})
	reply, c.l.Token = c.l.Token, 0 // readers have no token
	if err != nil || reply == 0 {
		return 0, ttl, err
	}
	switch {
	case c.l.Fixed:
		c.l.Top = c.l.Deadline.Load()
	case !c.l.Renewed:
		c.l.Top = c.l.Sent + int64(c.config.MaxHold)
	default:
		c.l.Top = lease.Forever
	}
	if c.h, c.used = c.e.rws.GrantRead(c.w, c.l, true, c.joinUntil(reply, c.l.Sent)); c.used {
		c.e.took(c.l, c.config.MaxHold)
		return reply, 0, nil
	}
	c.e.releaseLater(c.l) // another reader of this owner or of this process was faster
	c.l = c.newLease()
	return reply, 0, nil
}

// joinUntil returns until when more readers may join after a reply to what was sent then.
func (c *readCall) joinUntil(reply, sent int64) int64 {
	if reply != wire.ReadJoin {
		return 0
	}
	return sent + int64(c.e.Config.Tenure)
}
