package queue

import (
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// Run polls waiters until Ctx ends.
func (q *Queue) Run() {
	defer q.rounds.Wait()
	q.polls.Run(q.Ctx.Done(), q.rounds.Next)
}

// deaf is how often a waiter is polled that cannot be told of a grant.
const deaf = 100 * time.Millisecond

// scheduleLocked schedules the poll of w that follows a request sent at sent: after a third of a
// claim at most, since the time of sending counts for a grant; within a time from now, unless that
// is 0; and at once if something has happened meanwhile. Those due within a twelfth of a grant
// timeout are polled together.
func (q *Queue) scheduleLocked(w *Waiter, sent int64, within time.Duration, hears bool) {
	claim, now := w.ref.GrantFor, q.Clock.Now()
	at := sent + int64(claim/4) + rand.N(int64(claim/12)+1)
	if within > 0 {
		at = min(at, now+int64(within))
	}
	if !hears {
		at = min(at, now+int64(timing.Jitter(deaf)))
	}
	if w.again {
		w.again, at = false, 0
	}
	w.next.Slack = claim / 12
	if w.theirs != 0 {
		w.next.Slack = min(time.Duration(q.often)*oftenEach/4, wire.GrantMost/12)
	}
	q.polls.Set(&w.next, at)
}

// probe sends one round of polls and records the answers.
func (q *Queue) poll(due []*Waiter) {
	due, refs := q.waiting(due)
	if len(due) == 0 {
		return
	}
	var longest time.Duration
	for _, r := range refs {
		longest = max(longest, r.GrantFor)
	}
	ctx, stop := timing.Within(q.Ctx, max(lease.RoundMost(longest), silentFrom))
	sent := q.Clock.Now()
	replies, errs := q.Proto.Poll(ctx, refs)
	late := ctx.Err() != nil
	stop()

	for i, w := range due {
		if errs[i] == nil && replies[i] == wire.Theirs {
			q.listen(w)
		}
		hears := q.hears(w)
		q.mu.Lock()
		if q.waitsLocked(w) {
			q.answeredLocked(w, sent, replies[i], errs[i], late, hears)
		}
		q.mu.Unlock()
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

// answeredLocked records the answer to a poll of w. The error of one that was late tells nothing,
// but Redis is silent after a while.
func (q *Queue) answeredLocked(w *Waiter, sent, reply int64, err error, late, hears bool) {
	now, cause := q.Clock.Now(), err
	if late && err != nil {
		cause = w.err
		if cause == nil && now-w.polled > int64(max(w.ref.GrantFor, silentFrom)) {
			cause = ErrSilent
		}
	}
	if (cause == nil) != (w.err == nil) {
		timing.Signal(w.C)
	}
	w.err = cause

	var within time.Duration
	switch {
	case err != nil && (late || transport.Transient(err)):
		q.polls.Set(&w.next, now+int64(timing.Jitter(max(w.ref.GrantFor/30, deaf)))) // not more often, however short the grant timeout
		return
	case err != nil || reply == wire.LostPlace || reply == wire.Tokenless:
		// The call asks again, and learns of an error then.
		w.lost = true
		timing.Signal(w.C)
		return
	case reply > 0:
		q.grantedLocked(w, Grant{Reply: w.ref.Kind.Reply(reply), Slot: -1, Term: w.ref.Length}, sent)
		return
	case reply == wire.Theirs:
		q.oftenLocked(w, true)
		within = q.againLocked(w)
	default:
		q.oftenLocked(w, false)
		within = w.ref.Kind.Reply(reply).Wait + time.Millisecond
	}
	w.polled = sent
	q.scheduleLocked(w, sent, within, hears)
}

// The first of a queue polls a lock that Redisson has, since the end of an RFairLock's hold is
// published to no other waiter, and other ends of holds not to everybody (pubsub.Broker.Overhear).
// It polls often at first: an owner of Redisson that returns at once finds no queue, and has the
// lock again after a short gap. Those who wait for many locks of Redisson's poll each of them less
// often, so that all polls of a session cost the server some 4 % of a core.
const (
	oftenFirst = time.Millisecond
	oftenMost  = 10 * time.Millisecond
	oftenEach  = 800 * time.Microsecond
)

// oftenLocked records whether w polls from now on.
func (q *Queue) oftenLocked(w *Waiter, polls bool) {
	switch {
	case polls && w.theirs == 0:
		w.theirs = q.Clock.Now()
		q.often++
	case !polls && w.theirs != 0:
		w.theirs = 0
		q.often--
	}
}

// againLocked returns after how long to poll again: after a 64th of the time so far. A crowd of
// Redisson leaves a gap of less than 1 ms between two holds.
func (q *Queue) againLocked(w *Waiter) time.Duration {
	often := min(max(time.Duration(q.Clock.Now()-w.theirs)/64, oftenFirst), oftenMost)
	return max(often, time.Duration(q.often)*oftenEach)
}

// listen has w polled when a lock that Redisson has is released.
func (q *Queue) listen(w *Waiter) {
	if w.freed != nil {
		return
	}
	l := q.Broker.Overhear(w.ref.Keys.Channel, func() { q.missed(w) })
	q.mu.Lock()
	if q.waitsLocked(w) {
		w.freed, l = l, nil
	}
	q.mu.Unlock()
	if l != nil {
		l.Unsubscribe() // it waits no more
	}
}
