package engine

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How every lock waits. A contender asks Redis once: the script that finds the lock taken queues
// the hold id, and from then on the contender waits for a message, which grants the lock. Others
// may look at the lock for it (queue.Queue), and tell it that it has the lock, or that its place
// is lost: then it queues again under another id.

// attempt is a call while it asks Redis.
type attempt struct {
	*Lock
	ctx     context.Context    // the caller's
	io      context.Context    // the same for rueidis
	session *transport.Context // ends the call with the session
	c       *Call
	w       *waiter
	st      arbiterStanding // of a reader
	backoff time.Duration   // before the next request, after some that were refused
	over    bool            // the call ends as it should: no observer has panicked
	asking  *lease.Lease    // what the call may have in Redis: a place, or a lease that the arbiter does not know
	from    string          // the hold id of a ticket to adopt; empty: Redis is asked for a lock of its own

	// The last answer of Redis.
	taken bool  // the lock is taken
	last  error // it failed, or did not answer
	asked int64 // when the request was sent

	read wire.ReadReply // of a reader: what has granted its lease
}

// outcome is what has become of a hold id under which a call contended.
type outcome uint8

const (
	granted outcome = iota // it has the lock
	again                  // it has not; the call goes on under another id
	over                   // the call is over: it does not wait, another call of the owner lets it in, or there is an error
)

// contend returns a lease once it is granted. It returns neither lease nor error if the call does
// not wait and the lock is taken, or if another call of the owner has let w in. l is a lease that
// has a place in the queue already, or nil. After an error nothing is left in Redis, or the
// cleaner removes it.
func (a *attempt) contend(l *lease.Lease) (*lease.Lease, error) {
	for {
		var out outcome
		var err error
		if a.asking = l; l != nil {
			out, err = a.goOn(l)
		} else {
			l = a.newLease()
			a.asking = l
			out, err = a.ask(l)
		}
		if out == granted {
			if l.Turn = l.Since; l.Token > 0 {
				l.Top = l.Token + wire.Tokens(l.Token) - 1
			}
			return l, nil
		}
		if l.Queued || l.Indeterminate {
			a.e.cleaner.Add(l, l.Indeterminate, nil)
		}
		a.asking = nil
		if out == over {
			return nil, err
		}
		l = nil
	}
}

// newLease returns a lease with a new id, not yet acquired.
func (a *attempt) newLease() *lease.Lease {
	return &lease.Lease{
		Ref: wire.Ref{
			Keys: &a.keys, Kind: a.kind, ID: a.e.newID(a.kind), Length: a.config.Lease, Claim: wire.ClaimOf(a.config.Lease),
			Renewed: a.config.Passable(), Permits: a.config.Permits,
		},
		Fixed:   a.config.Fixed,
		MinHold: min(a.config.MinHold, time.Duration(lease.Forever)),
		Keeps:   a.config.Keep > 0,
	}
}

// goOn goes on with l, which a release of this process has queued, and perhaps granted the lock.
func (a *attempt) goOn(l *lease.Lease) (outcome, error) {
	l.Queued, l.Keeps = true, a.config.Keep > 0
	if l.Token > 0 {
		return a.claim(l, queue.Grant{Reply: wire.Reply{Granted: true, Token: l.Token}, Term: l.Claim, Until: lease.CertainUntil(l.Claim, l.Sent), Claim: true})
	}
	a.answered(nil)
	return a.await(l, l.Claim)
}

// ask asks Redis for the lock under the id of l, and waits for a grant if it is taken.
func (a *attempt) ask(l *lease.Lease) (outcome, error) {
	l.Queued = a.c.Wait
	r, err := a.send(l, l.Queued)
	_, refused := transport.Code(err)
	switch {
	case r.Granted:
		return granted, nil
	case err == nil && !a.c.Wait:
		a.answered(nil)
		return over, nil
	case err == nil:
		a.answered(nil)
		return a.await(l, r.Wait)
	}
	if err := a.check(err); err != nil {
		return over, err
	}
	if refused || errors.Is(err, ErrLate) {
		l.Queued = l.Queued && !refused
		a.backoff = min(max(2*a.backoff, timing.MinBackoff), timing.MaxBackoff)
		if done, err := a.pause(timing.Jitter(a.backoff), nil); done || err != nil {
			return over, err
		}
		return again, nil
	}
	return a.await(l, timing.Jitter(timing.MinBackoff)) // it may have been executed
}

// await waits in the queue for a grant, and has l looked after from ttl on.
func (a *attempt) await(l *lease.Lease, ttl time.Duration) (outcome, error) {
	w := a.e.queue.Add(l.Ref, l.Sent, ttl)
	defer a.e.queue.Remove(w)
	for {
		if done, err := a.pause(0, w.C); done || err != nil {
			if last, _ := a.looked(l, w); a.e.Clock.Now()-last > int64(max(l.Claim, silentFrom)) {
				a.asked = last // several probes have failed since
				a.unanswered()
			}
			if err != nil {
				err = a.ended()
			}
			return over, err
		}
		switch g, lost := a.e.queue.Answer(w); {
		case lost:
			return again, nil
		case g.Granted:
			if l.Keeps {
				a.e.keeper.recalled(l.Keys.Name)
			}
			return a.claim(l, g)
		}
		switch last, err := a.looked(l, w); {
		case err == queue.ErrSilent:
			a.table.Report(a.w, err) // for those that queue behind
		case err != nil || last > l.Sent:
			a.answered(err)
		}
	}
}

// looked records what the last look has found.
func (a *attempt) looked(l *lease.Lease, w *queue.Waiter) (last int64, err error) {
	switch last, err = a.e.queue.Probed(w); {
	case err == queue.ErrSilent:
		a.asked, a.taken, a.last = last, false, nil
	case err != nil || last > l.Sent:
		a.taken, a.last = err == nil, err
	}
	return last, err
}

// claim makes l the holder of a lock that was granted to it, if that is certain. The watchdog soon
// gives it its lease.
func (a *attempt) claim(l *lease.Lease, g queue.Grant) (outcome, error) {
	l.Since = a.e.Clock.Now()
	l.Granted(g.Term, g.Until, g.Claim)
	l.Wanted = g.Wanted
	enough := int64(g.Term / 4)          // for the renewal, which must come in time
	own := a.kind.Joins() && !a.shares() // it may replace a longer lease, which a claim must not cut short
	slotless := a.kind.Slots() && g.Slot < 0
	if lease.Certain(l, l.Since+enough) && a.e.Config.Replicas == 0 && !own && !slotless {
		l.Token, l.Slot, a.read = g.Token, g.Slot, g.Read
		return granted, nil
	}
	// Too old to be certain for long, not confirmed by the replicas, too short, or without its
	// slot: ask, without queueing, until Redis answers. If the claim has expired, another contender
	// has the lock.
	out, _, err := a.insist(l)
	if out == again {
		a.answered(nil)
	}
	return out, err
}

// insist sends a request for l, without queueing, until Redis answers: granted, or again with the
// wait of the answer.
func (a *attempt) insist(l *lease.Lease) (outcome, time.Duration, error) {
	l.Token = 0
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		r, err := a.send(l, false)
		switch {
		case r.Granted:
			return granted, 0, nil
		case err == nil:
			return again, r.Wait, nil
		}
		if err := a.check(err); err != nil {
			return over, 0, err
		}
		if done, err := a.pause(timing.Jitter(backoff), nil); done || err != nil {
			return over, 0, err
		}
	}
}

// ErrLate: a lease expired before its grant arrived.
var ErrLate = errors.New("the reply came after the lease it grants had ended")

// send sends a request for l, which has its token if the reply grants it. It is sent again, then
// without queueing, since an id is queued only once, if the reply comes too late to be certain.
// With an error nothing is granted.
func (a *attempt) send(l *lease.Lease, enqueue bool) (r wire.Reply, err error) {
	for resent := false; ; resent = true {
		l.Sent = a.e.Clock.Now()
		a.asked = l.Sent
		queues := enqueue
		if a.from != "" {
			r.Token, r.Wait, err = a.e.proto.Handoff(a.io, a.from, &l.Ref, false)
			r.Granted = r.Token > 0
		} else {
			r, err = a.e.proto.Acquire(a.io, &l.Ref, a.request(enqueue))
		}
		enqueue = false
		l.Since = a.e.Clock.Now()
		if err != nil {
			l.Indeterminate = l.Indeterminate || r.Granted || undecided(err) // granted: too few replicas have it
			if !resent && !queues && transport.Broken(err) {                 // one that queues is not sent again
				continue
			}
			return wire.Reply{}, err
		}
		if !r.Granted {
			return r, nil
		}
		l.Acquired()
		if lease.Certain(l, l.Since+lease.Early) {
			l.Token, a.read = r.Token, r.Read
			return r, nil
		}
		// Sent too long ago to be certain. The same request starts the lease again.
		l.Indeterminate = true
		if resent {
			return wire.Reply{}, ErrLate
		}
	}
}

// request returns the request for a hold.
func (a *attempt) request(queue bool) wire.Ask {
	ask := wire.Ask{LeaseMS: a.leaseMS, Queue: queue}
	if a.st.Writes {
		ask.Writer = a.st.Write.ID
	}
	if a.st.Confirm && queue == a.c.Wait { // at first also for the shared lease
		ask.Join = a.st.Read.ID
	}
	return ask
}

// undecided reports whether a request that failed with err may have been executed, perhaps in part.
func undecided(err error) bool {
	code, answered := transport.Code(err)
	return !answered || transport.Interrupted(err) || !transport.Transient(err) && code != wire.CodeNotLock
}

// check returns nil if the call may try again after err, else what the call must return.
func (a *attempt) check(err error) error {
	switch end := a.ended(); {
	case end != nil && !transport.IsContextError(err):
		a.answered(err)
		return a.ended()
	case end != nil:
		a.unanswered()
		return a.ended()
	case !a.c.Wait || !transport.Transient(err):
		return unavailable(a.op(a.c), a.Name(), err, time.Duration(a.e.Clock.Now()-a.asked))
	}
	a.answered(err)
	return nil
}

// answered records the last answer of Redis: the lock is taken if err is nil.
func (a *attempt) answered(err error) {
	a.taken, a.last = err == nil, err
	if a.taken {
		a.c.Contend()
	}
	if a.c.Wait {
		a.table.Report(a.w, err) // for those that queue behind
	}
}

// silentFrom is when a request without an answer outweighs the answer before it.
const silentFrom = time.Second

// unanswered records that the call has ended during a request. An error before that says more.
func (a *attempt) unanswered() {
	d := time.Duration(a.e.Clock.Now() - a.asked)
	if a.last == nil && (d >= silentFrom || !a.taken && !a.seen(a.table.Blocked(a.w))) {
		a.taken, a.last = false, transport.Unanswered(context.DeadlineExceeded, d)
	}
}

// seen reports whether the lock was known to be taken, while the call was queued in this process,
// and lately.
func (a *attempt) seen(b arbiter.Blocked[*lease.Lease]) bool {
	return b.Taken && a.e.Clock.Now()-b.TakenAt < int64(silentFrom)
}

// ended returns why the call must end, nil if it may go on. The lock is taken if that was the last
// answer, or if this process has it, unless Redis has not confirmed its release: then Redis keeps
// the call waiting.
func (a *attempt) ended() error {
	op := a.op(a.c)
	switch {
	case a.ctx.Err() == nil && a.session.Err() == nil:
		return nil
	case a.ctx.Err() == nil:
		return lockerr.New(op, a.Name(), lockerr.ErrClosed, a.last)
	case a.side.MustUnlockFirst(a.w.Owner):
		return lockerr.Ended(op, a.Name(), a.ctx, lockerr.Join(lockerr.ErrUnlockFirst, a.side.LossOf(a.w.Owner)))
	}
	if a.c.found != nil && a.c.Ctx.Err() == nil {
		return a.triedEnough(op)
	}
	b := a.table.Blocked(a.w)
	if late := b.Held && b.Lease.Late.Load(); a.taken || b.Held && !late || a.last == nil && a.seen(b) && !late {
		return lockerr.Taken(op, a.Name(), a.ctx, a.c.Waited())
	}
	if a.last == nil || transport.Unavailable(a.last) {
		return lockerr.Unavailable(op, a.Name(), a.ctx, a.last)
	}
	return lockerr.Ended(op, a.Name(), a.ctx, a.last)
}

// triedEnough returns why a TryLock that waits ends, which is not the end of its caller's context.
func (a *attempt) triedEnough(op string) error {
	switch {
	case a.c.told.Contended:
		return lockerr.New(op, a.Name(), lockerr.ErrTaken)
	case a.last == nil || transport.Unavailable(a.last):
		return lockerr.New(op, a.Name(), lockerr.ErrUnavailable, a.last)
	}
	return lockerr.New(op, a.Name(), a.last)
}

// unavailable returns the failure of an operation because of err, whose request was sent d ago.
func unavailable(op, name string, err error, d time.Duration) error {
	if transport.Unavailable(err) {
		return lockerr.New(op, name, lockerr.ErrUnavailable, transport.Unanswered(err, d))
	}
	return lockerr.New(op, name, err)
}

// pause waits for d if that is not 0, a signal, the end of the call, or until another call of
// the owner lets this one in, or has it ask again.
func (a *attempt) pause(d time.Duration, signal <-chan struct{}) (done bool, err error) {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
	case <-signal:
	case <-a.w.C:
		return true, nil
	case <-a.ctx.Done():
	case <-a.session.Done():
	}
	err = a.ended()
	return err != nil, err
}
