package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How a Group locks and unlocks several locks of one engine: as TryLock and Unlock do, with the
// requests in one pipeline for each node.

// PipesWith reports whether l and another lock may be asked in one pipeline: not if they have one key.
func (l *Lock) PipesWith(other Locker) bool {
	o, ok := other.(*Lock)
	return ok && l.e == o.e && l.keys.Name != o.keys.Name &&
		cmp.Or(l.config.Err, o.config.Err) == nil && l.e.Config.Replicas == 0
}

// TryAll makes one attempt to lock each of several locks of an engine for o, on behalf of a call, as
// TryLock would.
func TryAll(ctx context.Context, o *arbiter.Owner, locks []*Lock, c *Call) (held []bool, errs []error) {
	e := locks[0].e
	held, errs = make([]bool, len(locks)), make([]error, len(locks))
	if !e.Begin() {
		errs[0] = lockerr.New(locks[0].op(c), locks[0].Name(), lockerr.ErrClosed)
		return held, errs
	}
	defer e.End()
	one := c.Part(false)
	var asking []*attempt
	var at []int
	var tries []wire.Try
	for i, l := range locks {
		w := l.table.Waiter(&l.handle, o, l.shares(), int64(l.config.Lease))
		defer l.table.Free(w)
		switch l.table.Enter(w, false) {
		case arbiter.Entered, arbiter.Joined:
			held[i] = true
		case arbiter.Upgrade:
			errs[i] = lockerr.New(l.op(c), l.Name(), lockerr.ErrUpgrade)
		case arbiter.UnlockFirst:
			errs[i] = lockerr.New(l.op(c), l.Name(), lockerr.ErrUnlockFirst)
		case arbiter.Ask:
			a := &attempt{Lock: l, ctx: ctx, c: one, w: w}
			if l.kind == wire.Read {
				var h *lease.Hold
				if h, a.st = l.table.Standing(w); h != nil {
					held[i] = true
					continue
				}
			}
			a.tried = a.newLease()
			try := wire.Try{Ref: &a.tried.Ref, LeaseMS: a.leaseMS}
			if a.st.Writes {
				try.Writer = a.st.Write.ID
			}
			asking, at, tries = append(asking, a), append(at, i), append(tries, try)
		}
	}
	if len(asking) == 0 {
		return held, errs
	}
	sent := e.Clock.Now()
	replies, failures := e.proto.TryAll(transport.ForCaller(ctx, e.callCtx), tries)
	now := e.Clock.Now()
	for i, a := range asking {
		l := a.tried
		l.Sent, l.Since = sent, now
		held[at[i]], errs[at[i]] = a.settle(replies[i], failures[i])
	}
	return held, errs
}

// settle follows the reply to a try.
func (a *attempt) settle(reply int64, err error) (ok bool, _ error) {
	l := a.tried
	a.asked = l.Sent
	if err == nil && reply > 0 {
		l.Acquired()
		if !lease.Certain(l, l.Since+lease.Early) {
			err, l.Indeterminate = ErrLate, true
		}
	}
	if err == nil && reply > 0 {
		l.Token = reply
		l.Top = l.Token + wire.Tokens(l.Token) - 1
		if a.kind == wire.Read {
			ok = a.enterRead(l)
		} else if _, ok = a.table.Grant(a.w, l, l.Token); ok {
			a.e.took(l, a.config.MaxHold)
		} else {
			a.e.releaseLater(l)
		}
		if ok {
			return true, nil
		}
	}
	if err != nil {
		l.Indeterminate = l.Indeterminate || undecided(err)
		err = a.check(err)
	} else {
		a.answered(nil)
	}
	if l.Indeterminate {
		a.e.cleaner.Add(l, true, nil)
	}
	if ok, err = a.letIn(err); err == errStartOver {
		err = nil // what another call has got for it has expired
	}
	return ok, err
}

// UnlockAll ends one Lock of o of each of several locks of an engine.
func UnlockAll(ctx context.Context, o *arbiter.Owner, locks []*Lock) []error {
	e := locks[0].e
	e.track()
	defer e.End()
	now := e.Clock.Now()
	until := now + int64(unlockMost)
	us := make([]unlocking, len(locks))
	var leases []*lease.Lease
	for i, l := range locks {
		us[i].Lock = l
		if us[i].exit(o); us[i].Outcome == arbiter.Release {
			leases = append(leases, us[i].Lease)
		}
	}
	// Its own deadline ends a release, and the latest of them the pipeline.
	ios := make([]*transport.Context, len(leases))
	last := 0
	for n, l := range leases {
		ios[n] = e.proto.NewContext(ctx)
		e.watchdog.Stop(l, ios[n], until)
		if l.Deadline.Load() > leases[last].Deadline.Load() {
			last = n
		}
	}
	var told []int64
	var errs []error
	if len(leases) > 0 {
		ios[last].Bound(e.proto.Conn, time.Duration(min(until, leases[last].Deadline.Load())-now))
		told, errs = e.proto.ReleaseAll(ios[last], lease.Refs(leases))
	}
	all := make([]error, len(locks))
	n := 0
	for i := range us {
		u := &us[i]
		r := release{held: true}
		if u.Outcome == arbiter.Release {
			err := errs[n]
			if err == nil && told[n] < 0 && lease.Certain(u.Lease, e.Clock.Now()) {
				err = lease.ErrGone
			}
			if err != nil && err != lease.ErrGone && lease.RetryRelease(err) {
				_, err = e.sendRelease(ios[n], u.Lease, until, nil, true)
			}
			r = e.settle(u.Lease, nil, err)
			n++
		}
		all[i] = u.finish(ctx, r)
	}
	for _, io := range ios {
		io.Free()
	}
	return all
}
