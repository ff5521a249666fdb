package acquire

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/local"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// An acquisition is a call while it gets a lock from Redis. It goes through these stages:
//
//	        taken                  a message, or a poll
//	asking ───────► queued ────────────────────────────────► held
//	 ▲  │ └─ granted ──┼─────────────────────────────────────► ▲
//	 │  │              └── granted, too old or not confirmed ──┤
//	 │  │                    ▼                                 │
//	 │  │                confirming ───────────────────────────┘
//	 │  └─ refused, error ─► over ◄── the end of ctx, an error: from every stage
//	 └── the entry or the grant is gone: again, under another id
//
// What it has in Redis when it goes on without that is given back in one place, giveUp.
type acquisition struct {
	*Lock
	ctx     context.Context    // the caller's
	io      context.Context    // the same for Redis, while it is asked
	session *transport.Context // ends the call with the session
	start   int64              // when the call began
	c       *Call
	call    *local.Call  // in the table
	turn    Turn         // in the process
	lease   *lease.Lease // what the call may have in Redis: an entry, or a lease that is not yet a hold's
	behind  *Facts       // another call of its owner, for which it waits
	facts   Facts
	reply   wire.Reply    // the last one, if it has queued the call
	backoff time.Duration // before the next request, after some that were refused

	apart  bool           // no table knows of it, though one knows of others
	ticket string         // the hold id of a ticket to adopt; empty: Redis is asked for a lock of its own
	until  int64          // when the time of that ticket is over, by the server
	join   *lease.Lease   // of a reader: the lease of this process that it may perhaps share
	read   wire.ReadReply // of a reader: what has granted its lease
}

// stage is where an acquisition is.
type stage uint8

const (
	asking     stage = iota // Redis is asked, under a new id
	queued                  // the id waits in Redis
	confirming              // it was granted, and Redis is asked to say so
	held                    // the lease is granted
	over                    // there is nothing, or an error
)

// run returns a lease once it is granted. It returns neither lease nor error if the lock is taken
// and the call does not wait. After an error nothing is left in Redis, or the cleaner removes it.
func (a *acquisition) run() (l *lease.Lease, err error) {
	defer a.open()()
	at := asking
	if a.ticket != "" {
		at = confirming
		a.begin()
	}
	defer func() {
		if at != held { // also if an observer has panicked
			a.giveUp()
		}
	}()
	for {
		switch at {
		case asking:
			a.giveUp()
			at, err = a.request()
		case queued:
			at, err = a.await()
		case confirming:
			at, err = a.confirm()
		case held:
			return a.granted(), nil
		case over:
			return nil, err
		}
	}
}

// open makes the context for Redis. A call that does not wait is bounded.
func (a *acquisition) open() (stop func()) {
	if a.c.Wait {
		a.io = transport.ForCaller(a.ctx, a.session)
		return func() {}
	}
	a.io, stop = timing.Within(a.ctx, a.Patience())
	return stop
}

// Patience returns how much longer a call that does not wait for the lock waits for Redis.
func (a *acquisition) Patience() time.Duration {
	if a.c.Try { // also that of a group, which tries one member after the other
		return a.tryBound() - a.c.Waited()
	}
	return a.tryBound() - time.Duration(a.n.Clock.Now()-a.start)
}

// begin gives the acquisition a new id.
func (a *acquisition) begin() *lease.Lease {
	l := a.newLease()
	if l.Of = a.table; a.apart {
		l.Of = new(alone)
	}
	a.n.Leases.Add(l)
	a.lease = l
	return l
}

// giveUp gives back what the call may have in Redis.
func (a *acquisition) giveUp() {
	if l := a.lease; l != nil {
		a.lease = nil
		a.n.giveUp(l)
	}
}

func (n *Node) giveUp(l *lease.Lease) {
	n.Leases.Remove(l)
	if l.Queued || l.Indeterminate {
		n.Cleaner.Add(l, l.Indeterminate, nil)
	}
}

// granted completes the lease.
func (a *acquisition) granted() *lease.Lease {
	l := a.lease
	if l.Token > 0 {
		l.Top = l.Token + wire.Tokens(l.Token) - 1
	}
	return l
}

// request asks Redis under a new id.
func (a *acquisition) request() (stage, error) {
	l := a.begin()
	l.Queued = a.c.Wait
	r, err := a.send(a.c.Wait)
	switch {
	case r.Granted:
		l.SetNote(a.config.Note, true)
		return held, nil
	case err == nil && !a.c.Wait:
		a.taken()
		return over, nil
	case err == nil:
		a.taken()
		a.reply = r
		a.call.Score = r.Score
		return queued, nil
	}
	if err := a.check(err); err != nil {
		return over, err
	}
	if err == ErrLate {
		return a.late()
	}
	_, refused := transport.Code(err)
	unsent := errors.As(err, new(*transport.Unstarted))
	if !refused && !unsent { // it may have been executed
		a.reply = wire.Reply{Wait: timing.Jitter(timing.MinBackoff)}
		return queued, nil
	}
	l.Queued = l.Queued && !refused
	a.backoff = min(max(2*a.backoff, timing.MinBackoff), timing.MaxBackoff)
	if err := a.pauseAfter(err, a.backoff); err != nil {
		return over, err
	}
	return asking, nil
}

// late ends the attempt of a call that has had its turn, without the time to make use of it. Its
// entry does not come back with its old score: it would be first again at once.
func (a *acquisition) late() (stage, error) {
	a.call.Score = 0
	return over, ErrLate
}

// pauseAfter pauses before the next request, about that long, after one that has failed with err;
// or until there is news of a session that has not started. It returns why the call does not go on.
func (a *acquisition) pauseAfter(err error, backoff time.Duration) error {
	if u := (*transport.Unstarted)(nil); errors.As(err, &u) {
		return a.Pause(0, u.News)
	}
	return a.Pause(timing.Jitter(backoff), nil)
}

// send sends a request for the lease, which has its token if the reply grants it. It is sent again,
// then without queueing, since an id is queued only once, if the reply comes too late to be valid.
// With an error nothing is granted. While the session has not started nothing is sent.
func (a *acquisition) send(enqueue bool) (r wire.Reply, err error) {
	l := a.lease
	if err := a.n.Proto.AwaitStart(a.io); err != nil {
		l.Queued = false
		return wire.Reply{}, err
	}
	for resent := false; ; resent = true {
		l.Sent = a.n.Clock.Now()
		a.facts.Sent(l.Sent)
		queues := enqueue
		if a.ticket != "" {
			note := wire.Note(a.config.Note, false)
			r.Token, r.Wait, err = a.n.Proto.Handoff(a.io, a.ticket, &l.Ref, false, note)
			if r.Granted = r.Token > 0; r.Granted {
				l.SetNote(a.config.Note, true)
			}
		} else {
			r, err = a.n.Proto.Acquire(a.io, &l.Ref, a.wants(enqueue))
		}
		enqueue = false
		l.Since = a.n.Clock.Now()
		if err != nil {
			// If it was granted, too few replicas have it.
			l.Indeterminate = l.Indeterminate || r.Granted || undecided(err)
			l.Queued = l.Queued && !(queues && transport.Unsent(err))
			if !resent && !queues && transport.Broken(err) { // one that queues is not sent again
				continue
			}
			return wire.Reply{}, err
		}
		a.facts.Heard()
		if !r.Granted {
			return r, nil
		}
		l.Acquired()
		if l.Valid(l.Since + lease.Early) {
			l.Token, l.Again, a.read = r.Token, r.Again, r.Read
			l.Wanted.Store(l.Wanted.Load() || r.Wanted)
			return r, nil
		}
		// Sent too long ago to be valid. The same request starts the lease again.
		l.Indeterminate = true
		if resent {
			return wire.Reply{}, ErrLate
		}
	}
}

// wants returns the request.
func (a *acquisition) wants(queue bool) wire.Ask {
	ask := wire.Ask{LeaseMS: a.leaseMS, Queue: queue, Note: wire.Note(a.config.Note, false), With: a.c.batch}
	if queue {
		ask.Score = a.call.Score
	}
	a.c.batch = nil
	if a.lease.Length != a.config.Lease {
		ask.LeaseMS = wire.Millis(a.lease.Length)
	}
	if a.kind.Joins() && a.call.Owner != nil {
		if h := a.call.Owner.Held(a.owned, false); h != nil {
			ask.Writer = lease.Of(h.Lease).ID
		}
	}
	if a.join != nil && queue == a.c.Wait { // at first also for the shared lease
		ask.Join = a.join.ID
	}
	return ask
}

// undecided reports whether a request that failed with err may have been executed, perhaps in part.
func undecided(err error) bool {
	code, answered := transport.Code(err)
	switch {
	case !answered:
		return !transport.Unsent(err)
	case transport.Transient(err):
		return transport.Interrupted(err)
	}
	return code != wire.CodeNotLock
}

// check returns nil if the call may try again after err, else what the call must return.
func (a *acquisition) check(err error) error {
	end := a.ended()
	if end != nil && transport.IsContextError(err) {
		return end
	}
	sent := a.facts.sentAt()
	a.facts.Answered(err)
	switch {
	case end != nil:
		return a.ended()
	case !a.c.Wait || !transport.Transient(err):
		return unavailable(a.op(a.c), a.Name(), err, time.Duration(a.n.Clock.Now()-sent))
	}
	return nil
}

// taken notes that Redis has answered that the lock is taken.
func (a *acquisition) taken() {
	a.facts.Answered(nil)
	a.c.taken = true
	a.c.Contend()
	if !a.apart {
		a.table.Refused(a.call, a.n.Clock.Now())
	}
	if a.call.Owner != nil {
		a.call.Owner.Tell(a.owned)
	}
}
