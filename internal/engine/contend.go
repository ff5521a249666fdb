package engine

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// How every lock waits. A contender asks Redis once: the script that finds the lock taken queues
// the hold id, and from then on the contender waits for a message, which grants the lock. Others
// may look at the lock for it (queue.Queue), and tell it that it has the lock, or that its place
// is lost: then it queues again under another id.

// contend returns a lease once it is granted. It returns neither lease nor error if the call does
// not wait and the lock is taken, or if another call of the owner has let w in. l is a lease that
// has a place in the queue already, or nil. After an error nothing is left in Redis, or the
// cleaner removes it.
func (a *attempt) contend(l *lease.Lease) (*lease.Lease, error) {
	for placed := l != nil; ; placed = false {
		if !placed {
			l = a.newLease()
		}
		left, done, err := a.contendAs(l, placed)
		if l.Token > 0 {
			l.Top = l.Token + wire.Tokens(l.Token) - 1
			return l, nil
		}
		if left || l.Indeterminate || a.halfway {
			a.e.cleaner.Add(l, l.Indeterminate, nil)
		}
		if done || err != nil {
			return nil, err
		}
	}
}

// contendAs contends under the id of l until it is granted (l.Token > 0), its place is lost, or
// the call is done. It reports whether l may have a place in Redis.
func (a *attempt) contendAs(l *lease.Lease, placed bool) (left, done bool, err error) {
	ttl := l.Claim
	switch {
	case l.Token > 0: // queued by a release, and granted by the same script
		done, err = a.claim(l, queue.Grant{Token: l.Token, Term: ttl, Until: lease.CertainUntil(ttl, l.Sent), Claim: true})
		return true, done, err
	case !placed:
		if ttl, err = a.send(l, a.wait); l.Token > 0 {
			return true, true, nil
		}
		if err == nil {
			a.answered(nil)
		} else if ttl, done, err = a.retryAfter(err); done || err != nil || ttl == 0 {
			return err != nil && a.wait, done, err
		}
		if !a.wait {
			return false, true, nil
		}
	}
	w := a.e.queue.Add(l.Ref, l.Sent, ttl)
	defer a.e.queue.Remove(w)
	done, err = a.await(l, w)
	return true, done, err
}

// retryAfter decides what follows a request that failed with err: the call ends with an error; or
// it asks again under another id, after a pause, if the request was refused; or ttl is how soon to
// look, since it may have been executed.
func (a *attempt) retryAfter(err error) (ttl time.Duration, done bool, _ error) {
	if err := a.check(err); err != nil {
		return 0, true, err
	}
	if _, refused := transport.Code(err); !refused && !errors.Is(err, ErrLate) {
		return timing.Jitter(timing.MinBackoff), false, nil
	}
	a.backoff = min(max(2*a.backoff, timing.MinBackoff), timing.MaxBackoff)
	done, err = a.pause(timing.Jitter(a.backoff), nil)
	return 0, done, err
}

// await waits in the queue for a grant.
func (a *attempt) await(l *lease.Lease, w *queue.Waiter) (done bool, err error) {
	a.tries++
	for {
		if done, err := a.pause(0, w.C); done || err != nil {
			if last, _ := a.look(l, w); a.e.Clock.Now()-last > int64(max(l.Claim, silentFrom)) {
				a.asked = last // several probes have failed since
				a.unanswered()
			}
			if err != nil {
				err = a.ended()
			}
			return true, err
		}
		switch g, lost := a.e.queue.Answer(w); {
		case lost:
			return false, nil
		case g.Token > 0:
			return a.claim(l, g)
		}
		switch last, err := a.look(l, w); {
		case err == queue.ErrSilent:
			a.arb.Report(a.w, err) // for those that queue behind
		case err != nil || last > l.Sent:
			a.answered(err)
		}
	}
}

// look records what the last look has found.
func (a *attempt) look(l *lease.Lease, w *queue.Waiter) (last int64, err error) {
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
func (a *attempt) claim(l *lease.Lease, g queue.Grant) (done bool, err error) {
	l.Since = a.e.Clock.Now()
	l.Granted(g.Term, g.Until, g.Claim)
	enough := int64(g.Term / 4) // for the renewal, which must come in time
	if lease.Certain(l, l.Since+enough) && a.e.Config.Replicas == 0 {
		l.Token = g.Token
		return true, nil
	}
	// Too old to be certain for long, or not confirmed by the replicas: ask. If the claim has expired,
	// another contender has the lock.
	l.Token = 0
	return a.confirm(l)
}

// confirm asks without queueing, until Redis answers. The call is done if the lock was granted.
func (a *attempt) confirm(l *lease.Lease) (done bool, err error) {
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		_, err := a.send(l, false)
		switch {
		case err == nil && l.Token > 0:
			return true, nil
		case err == nil:
			a.answered(nil)
			return false, nil
		}
		if err := a.check(err); err != nil {
			return true, err
		}
		if done, err := a.pause(timing.Jitter(backoff), nil); done || err != nil {
			return true, err
		}
	}
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
	var answered <-chan struct{}
	if a.w != nil {
		answered = a.w.C
	}
	select {
	case <-after:
	case <-signal:
	case <-answered:
		return true, nil
	case <-a.ctx.Done():
	case <-a.e.closing:
	}
	err = a.ended()
	return err != nil, err
}

// send sends one request. It is sent again if the reply comes too late, then without queueing:
// an id is queued only once (see queue.Queue).
func (a *attempt) send(l *lease.Lease, enqueue bool) (ttl time.Duration, err error) {
	a.tries++
	return a.request(l, func() (int64, time.Duration, error) {
		first := enqueue
		enqueue = false
		if a.ask != nil {
			return a.ask(l, first)
		}
		return a.e.proto.Acquire(a.io, &l.Ref, a.leaseMS(), first)
	})
}
