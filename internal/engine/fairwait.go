package engine

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/timing"
)

// fairCall is one call of Lock or TryLock on a FairMutex while it asks and queues in Redis.
type fairCall struct{ attempt }

// acquire returns a lease once it is granted. It returns neither lease nor error if the call
// does not wait and the lock is taken, or another call of the owner has let w in.
func (c *fairCall) acquire() (*lease.Lease, error) {
	for {
		l := c.newLease()
		placed, done, err := c.acquireAs(l)
		if l.Token > 0 {
			return l, nil
		}
		if placed || l.Indeterminate || c.halfway {
			c.e.cleaner.Add(l, l.Indeterminate, nil)
		}
		if done || err != nil {
			return nil, err
		}
	}
}

// acquireAs acquires under the id of l, until it is granted (l.Token > 0), its place is lost, or
// the call is done. It reports whether l may have a place in Redis.
func (c *fairCall) acquireAs(l *lease.Lease) (placed, done bool, err error) {
	q := c.e.fairQueue
	if !c.wait || !c.e.broker.Known(c.keys.Prefix+c.e.id) {
		// Without a place at first: an uncontended lock needs no subscription.
		if done, err := c.probe(l); done || err != nil {
			return false, done, err
		}
	}
	w := q.Add(l.Ref)
	defer q.Remove(w)
	for !w.Subscribed() {
		if done, err := c.pause(timing.Jitter(pollDeaf), w.C); done || err != nil {
			return false, done, err
		}
		if w.Subscribed() {
			break
		}
		if done, err := c.probe(l); done || err != nil {
			return false, done, err
		}
	}
	q.Enqueueing(w)
	ttl, err := c.send(l, true)
	switch {
	case l.Token > 0:
		return true, true, nil
	case errors.Is(err, ErrLate):
		return true, false, nil
	case err != nil:
		if err := c.check(err); err != nil {
			return true, true, err
		}
		ttl = timing.Jitter(timing.MinBackoff) // perhaps in the queue: the next probe will tell
	default:
		c.answered(nil)
	}
	q.Enqueued(w, ttl)
	done, err = c.await(l, w)
	return true, done, err
}

// probe asks without queueing, until Redis answers. The call is done if the lock was granted,
// or if it does not wait.
func (c *fairCall) probe(l *lease.Lease) (done bool, err error) {
	for backoff := timing.MinBackoff; ; backoff = min(2*backoff, timing.MaxBackoff) {
		_, err := c.send(l, false)
		switch {
		case err == nil && l.Token > 0:
			return true, nil
		case err == nil:
			c.answered(nil)
			return !c.wait, nil
		}
		if err := c.check(err); err != nil {
			return true, err
		}
		if done, err := c.pause(timing.Jitter(backoff), nil); done || err != nil {
			return true, err
		}
	}
}

// await waits in the queue for a grant.
func (c *fairCall) await(l *lease.Lease, w *queue.Waiter) (done bool, err error) {
	c.tries++
	for {
		if done, err := c.pause(0, w.C); done || err != nil {
			if last := c.e.fairQueue.Asked(w); c.e.Clock.Now()-last > int64(c.e.proto.Claim) && err != nil {
				c.asked = last // several probes have failed since
				c.unanswered()
				err = c.ended()
			}
			return true, err
		}
		token, until, lost := c.e.fairQueue.Answer(w)
		switch {
		case lost:
			return false, nil
		case token == 0:
			continue
		}
		l.Since = c.e.Clock.Now()
		l.Deadline.Store(until)
		enough := int64(c.e.proto.ClaimOf(&l.Ref) / 4) // for the renewal, which must come in time
		if lease.Certain(l, l.Since+enough) && c.e.Config.Replicas == 0 {
			l.Claim, l.Token = true, token
			return true, nil
		}
		// Too old to be certain for long, or not confirmed by the replicas: ask. If the claim has
		// expired, another contender has the lock.
		return c.probe(l)
	}
}

// pause waits for d if that is not 0, a signal, the end of the call, or until another call of
// the owner lets this one in.
func (c *fairCall) pause(d time.Duration, signal <-chan struct{}) (done bool, err error) {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
	case <-signal:
	case <-c.w.C:
		return true, nil
	case <-c.ctx.Done():
	case <-c.e.closing:
	}
	err = c.ended()
	return err != nil, err
}

// send sends one request. It is sent again if the reply comes too late, then without queueing:
// an id is queued only once (see queue.Queue).
func (c *fairCall) send(l *lease.Lease, enqueue bool) (ttl time.Duration, err error) {
	c.tries++
	c.asked = c.e.Clock.Now()
	return c.request(l, func() (int64, time.Duration, error) {
		first := enqueue
		enqueue = false
		return c.e.proto.Enter(c.io, &l.Ref, c.leaseMS, first)
	})
}
