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
	q.early.forget(now)
	if len(q.heap) == 0 || q.heap[0].next > now {
		return nil
	}
	soon := now + int64(q.heap[0].ref.Claim/12)
	polled := now + int64(q.polls)*int64(pollEach)/4
	var later []*Waiter
	for len(q.heap) > 0 && q.heap[0].next <= soon {
		w := heap.Pop(&q.heap).(*Waiter)
		if w.theirs != 0 && w.next > polled {
			later = append(later, w)
			continue
		}
		w.probeAgain = false
		due = append(due, w)
	}
	for _, w := range later {
		heap.Push(&q.heap, w)
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
	most := time.Hour
	if len(q.early) > 0 {
		most = time.Duration(earlyKept) // to forget them
	}
	return min(most, time.Duration(max(0, q.wakeAt-q.Clock.Now())))
}

// probe sends one round of probes and records the answers.
func (q *Queue) probe(due []*Waiter) {
	due, refs := q.waiting(due)
	if len(due) == 0 {
		return
	}
	var longest time.Duration
	for _, r := range refs {
		longest = max(longest, r.Claim)
	}
	ctx, stop := q.Proto.Bounded(q.Ctx, max(lease.RoundMost(longest), silentFrom))
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
	if late && w.err == nil && q.Clock.Now()-w.probed > int64(max(w.ref.Claim, silentFrom)) {
		w.err = ErrSilent
		timing.Signal(w.C)
	}
	if !late {
		if (err == nil) != (w.err == nil) {
			timing.Signal(w.C)
		}
		w.err = err
	}
	if err == nil {
		q.pollsLocked(w, reply == wire.Theirs)
	}
	switch {
	case err != nil && (late || transport.Transient(err)):
		q.scheduleLocked(w, q.Clock.Now()+int64(timing.Jitter(max(w.ref.Claim/30, deaf))))
	case err == nil && reply > 0:
		q.grantedLocked(w, Grant{Token: reply, Term: w.ref.Length}, sent)
	case err != nil || reply == wire.LostPlace || reply == wire.Tokenless:
		// The call asks again, and learns of an error then.
		w.lost = true
		timing.Signal(w.C)
	case reply == wire.Theirs:
		w.probed = sent
		q.scheduleLocked(w, min(q.after(w, sent, -1, hears), q.Clock.Now()+int64(q.pollLocked(w))))
	default:
		_, ttl, _ := wire.Granted(reply, nil)
		w.probed = sent
		q.scheduleLocked(w, q.after(w, sent, ttl, hears))
	}
}

// The first of a queue polls a lock that Redisson has, since the end of an RFairLock's hold is published to no
// other waiter, and other ends of holds not to everybody (pubsub.Broker.Overhear). It polls often at first: an owner
// of Redisson that returns at once finds no queue, and has the lock again after a short gap. Those who wait for many
// locks of Redisson's poll each of them less often, so that all polls of a session cost the server some 4 % of a core.
const (
	pollFirst = time.Millisecond
	pollMost  = 10 * time.Millisecond
	pollEach  = 800 * time.Microsecond
)

// pollsLocked records whether w polls from now on.
func (q *Queue) pollsLocked(w *Waiter, polls bool) {
	switch {
	case polls && w.theirs == 0:
		w.theirs = q.Clock.Now()
		q.polls++
	case !polls && w.theirs != 0:
		w.theirs = 0
		q.polls--
	}
}

// pollLocked returns after how long to poll again: after a 64th of the time so far. A crowd of Redisson leaves a gap
// of less than 1 ms between two holds.
func (q *Queue) pollLocked(w *Waiter) time.Duration {
	often := min(max(time.Duration(q.Clock.Now()-w.theirs)/64, pollFirst), pollMost)
	return max(often, time.Duration(q.polls)*pollEach)
}

// listen subscribes w to the releases of a lock that Redisson has.
func (q *Queue) listen(w *Waiter) {
	q.mu.Lock()
	listens := w.freed != nil || !q.waitsLocked(w)
	q.mu.Unlock()
	if listens {
		return
	}
	l := q.Broker.Overhear(w.ref.Keys.Channel, func() { q.look(w) })
	if l == nil {
		return
	}
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
