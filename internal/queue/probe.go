package queue

import (
	"container/heap"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Run probes contenders until Ctx ends.
func (q *Queue) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer q.probes.Wait()
	for {
		q.probes.Next(q.due())
		timer.Reset(q.untilNext())
		select {
		case <-timer.C:
		case <-q.kick:
		case <-q.Ctx.Done():
			return
		}
	}
}

// due removes from the heap those that are due, and those that are due soon.
func (q *Queue) due() (due []*Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeAt = 0
	now := q.Clock.Now()
	if len(q.heap) == 0 || q.heap[0].next > now {
		return nil
	}
	soon := now + int64(q.Proto.ClaimOf(&q.heap[0].ref)/12)
	for len(q.heap) > 0 && q.heap[0].next <= soon {
		w := heap.Pop(&q.heap).(*Waiter)
		w.probeAgain = false
		due = append(due, w)
	}
	return due
}

// untilNext returns how long to sleep.
func (q *Queue) untilNext() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeAt = lease.Forever
	if len(q.heap) > 0 {
		q.wakeAt = max(1, q.heap[0].next)
	}
	return min(time.Hour, time.Duration(max(0, q.wakeAt-q.Clock.Now())))
}

// probe sends one round of probes and records the answers.
func (q *Queue) probe(due []*Waiter) {
	due, refs := q.waiting(due)
	if len(due) == 0 {
		return
	}
	// A hanging Redis must not delay the next probes for long. A round trip may take as long
	// as probes are apart.
	ctx, stop := q.Proto.Bounded(q.Ctx, max(q.Proto.Claim/3, 20*time.Millisecond))
	sent := q.Clock.Now()
	replies, errs := q.Proto.Probe(ctx, refs)
	late := ctx.Err() != nil
	stop()

	for i, w := range due {
		if errs[i] == nil && replies[i] == wire.Theirs {
			q.listen(w)
		}
		hears := q.hears(w)
		q.mu.Lock()
		if q.waitsLocked(w) {
			q.probedLocked(w, sent, replies[i], errs[i], late, hears)
		}
		q.mu.Unlock()
	}
}

// probedLocked records the answer to a probe that was sent at sent.
func (q *Queue) probedLocked(w *Waiter, sent, reply int64, err error, late, hears bool) {
	if late && w.err == nil && q.Clock.Now()-w.probed > int64(q.Proto.Claim) {
		w.err = ErrSilent
		timing.Signal(w.C)
	}
	if !late {
		if (err == nil) != (w.err == nil) {
			timing.Signal(w.C)
		}
		w.err = err
	}
	switch {
	case err != nil && (late || transport.Transient(err)):
		q.scheduleLocked(w, q.Clock.Now()+int64(timing.Jitter(q.Proto.Claim/30)))
	case err == nil && reply > 0:
		q.grantedLocked(w, reply, w.ref.Length, sent)
	case err != nil || reply == wire.LostPlace:
		// The call asks again, and learns of an error then.
		w.lost = true
		timing.Signal(w.C)
	case reply == wire.Theirs:
		w.probed = sent
		q.scheduleLocked(w, q.after(w, sent, q.pollLocked(w), hears))
	default:
		_, ttl, _ := wire.Granted(reply, nil)
		w.probed = sent
		q.scheduleLocked(w, q.after(w, sent, ttl, hears))
	}
}

// The first of a queue polls a lock that Redisson has, since the end of an RFairLock's hold is
// published to no other waiter. It polls often at first: an owner of Redisson that returns at once
// finds no queue, and has the lock again after a short gap.
const (
	pollFirst = time.Millisecond
	pollMost  = 10 * time.Millisecond
)

// pollLocked returns after how long to poll a lock that Redisson has: a 64th of the time so far. A
// crowd of Redisson leaves a gap of less than 1 ms between two holds.
func (q *Queue) pollLocked(w *Waiter) time.Duration {
	now := q.Clock.Now()
	if w.theirs == 0 {
		w.theirs = now
	}
	return min(max(time.Duration(now-w.theirs)/64, pollFirst), pollMost)
}

// listen subscribes w to the releases of a lock that Redisson has.
func (q *Queue) listen(w *Waiter) {
	q.mu.Lock()
	listens := w.freed != nil || !q.waitsLocked(w)
	q.mu.Unlock()
	if listens {
		return
	}
	l := q.Broker.SubscribeFunc(w.ref.Keys.Channel, func() { q.look(w) })
	q.mu.Lock()
	gone := !q.waitsLocked(w)
	if !gone {
		w.freed = l
	}
	q.mu.Unlock()
	if gone {
		l.Unsubscribe()
	}
}

// waiting returns those that still wait, and their refs. It reuses due.
func (q *Queue) waiting(due []*Waiter) (waiting []*Waiter, refs []*wire.Ref) {
	waiting, refs = due[:0], make([]*wire.Ref, 0, len(due))
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range due {
		if q.waitsLocked(w) {
			waiting, refs = append(waiting, w), append(refs, &w.ref)
		}
	}
	return waiting, refs
}

// waitsLocked reports whether w was neither removed nor granted.
func (q *Queue) waitsLocked(w *Waiter) bool { return q.waiters[w.ref.ID] == w && w.grant.Token == 0 }
