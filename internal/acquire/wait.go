package acquire

import (
	"cmp"
	"time"

	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/timing"
)

// How a lock that is taken waits: in Redis, for a message that grants it. The queue polls the entry
// meanwhile.

// Pause waits for d if that is not 0, a signal, the end of the call, or news from the table. It
// returns why the call does not go on, nil if it does.
func (a *acquisition) Pause(d time.Duration, signal <-chan struct{}) error {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
	case <-signal:
	case <-a.call.C:
	case <-a.ctx.Done():
	case <-a.session.Done():
	}
	if err := a.ended(); err != nil {
		return err
	}
	if a.adopted() {
		return ErrStartOver
	}
	return nil
}

// adopted reports whether the call's owner has the lock by now, from a ticket.
func (a *acquisition) adopted() bool {
	return a.call.Owner != nil && a.ticket == "" && !a.kind.Joins() && a.heldBy(a.call.Owner) != nil
}

// await waits in the queue in Redis.
func (a *acquisition) await() (stage, error) {
	l := a.lease
	w := a.n.Queue.Add(l.Ref, l.Sent, a.reply)
	defer a.n.Queue.Remove(w)
	for {
		err := a.Pause(0, w.C)
		if a.polled(w); err == ErrStartOver {
			return over, err
		} else if err != nil {
			return over, a.ended() // with what the last poll has found
		}
		switch g, lost := a.n.Queue.Answer(w); {
		case lost:
			return asking, nil
		case g.Granted:
			return a.accept(g), nil
		}
	}
}

// polled notes what the last poll has found.
func (a *acquisition) polled(w *queue.Waiter) {
	last, score, err := a.n.Queue.Polled(w)
	a.call.Score = cmp.Or(score, a.call.Score)
	switch {
	case err == queue.ErrSilent || a.n.Clock.Now()-last > int64(max(a.lease.GrantFor, silentFrom)):
		a.facts.Silent(last)
	case err != nil:
		a.facts.Answered(err)
	case last > a.lease.Sent:
		a.taken()
	}
}

// accept makes the lease the holder of a lock that was granted to it. The watchdog soon gives it its
// length. A grant must be confirmed first if it is too old to be valid for long, if replicas must
// have it, or if its slot is not known.
func (a *acquisition) accept(g queue.Grant) stage {
	l := a.lease
	l.Since = a.n.Clock.Now()
	l.Granted(g.Term, g.Until, g.Unconfirmed)
	l.Wanted.Store(l.Wanted.Load() || g.Wanted)
	enough := max(int64(g.Term/4), 2*g.Trip) // for the renewal, which must come in time
	slotless := a.kind.Slots() && g.Slot < 0
	if !l.Valid(l.Since+enough) || a.n.Config.Replicas > 0 || slotless {
		return confirming
	}
	l.Token, l.Slot, l.Again, a.read = g.Token, g.Slot, g.Again, g.Read
	return held
}

// confirm asks Redis for what was granted, or left to a ticket, without queueing, until Redis
// answers. If the grant has expired, another call has the lock.
func (a *acquisition) confirm() (stage, error) {
	a.lease.Token = 0
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		r, err := a.send(false)
		switch {
		case r.Granted:
			return held, nil
		case err == nil && a.ticket != "":
			return over, a.unused(r.Wait)
		case err == nil:
			a.taken()
			if a.n.Clock.Now()-a.lease.Sent >= int64(a.lease.GrantFor) {
				return a.late()
			}
			return asking, nil
		case err == ErrLate && a.ticket == "":
			return a.late()
		}
		if err := a.check(err); err != nil {
			return over, err
		}
		if err := a.pauseAfter(err, backoff); err != nil {
			return over, err
		}
	}
}
