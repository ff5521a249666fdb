package queue

import (
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

// retry is after how long a poll that has failed is tried again at the earliest.
const retry = 100 * time.Millisecond

// scheduleLocked schedules the poll of w that follows a request sent at sent, whose reply is r: after
// a third of a grant timeout at most, since the time of sending counts for a grant; 1 ms after the
// end of the lease that the reply tells; and at once if something has happened meanwhile. Those due
// within a twelfth of a grant timeout are polled together.
//
// Redisson publishes the end of a hold where relock does not listen. So the first waiter polls often
// at first while Redisson has the lock, or its turn: an owner of Redisson that returns at once finds
// no queue, and has the lock again after a short gap. The more locks of Redisson's the session waits
// for, the less often: all these polls cost the server some 1% of a core.
func (q *Queue) scheduleLocked(w *Waiter, sent int64, r wire.Reply) {
	most, now := w.ref.GrantFor, q.Clock.Now()
	at := sent + int64(most/4) + timing.Random(int64(most/12)+1)
	if r.Wait >= 0 {
		at = min(at, now+int64(r.Wait+soonest))
	}
	w.next.Slack = most / 12
	if q.theirsLocked(w, r.Theirs); r.Theirs {
		often := max(soonest, time.Duration(now-w.theirs)/32, time.Duration(q.theirs)*theirsEach)
		at = min(at, now+int64(often))
		w.next.Slack = min(w.next.Slack, often/4)
	}
	if w.again {
		w.again, at = false, 0
	}
	q.polls.Set(&w.next, at)
}

// theirsEach is how much less often a waiter polls for each lock of Redisson's.
const theirsEach = 800 * time.Microsecond

// theirsLocked records whether w is first while Redisson has the lock, or its turn.
func (q *Queue) theirsLocked(w *Waiter, is bool) {
	switch {
	case is && w.theirs == 0:
		w.theirs = q.Clock.Now()
		q.theirs++
	case !is && w.theirs != 0:
		w.theirs = 0
		q.theirs--
	}
}

// poll sends one round of polls and records the answers.
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
		q.mu.Lock()
		if q.waitsLocked(w) {
			q.answeredLocked(w, sent, replies[i], errs[i], late)
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
func (q *Queue) answeredLocked(w *Waiter, sent int64, r wire.Reply, err error, late bool) {
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

	switch {
	case err != nil && (late || transport.Transient(err)):
		// Not more often than retry, however short the grant timeout.
		q.polls.Set(&w.next, now+int64(timing.Jitter(max(w.ref.GrantFor/30, retry))))
	case err != nil || r.Gone:
		// The call asks again, and learns of an error then.
		w.lost = true
		timing.Signal(w.C)
	case r.Granted:
		slot := -1
		if w.ref.Kind.Slots() {
			slot = w.ref.Slot
		}
		term := min(r.Term, w.ref.Length)
		q.grantedLocked(w, Grant{
			Reply: r, Slot: slot, Term: term, Unconfirmed: term < w.ref.Length, Trip: now - sent,
		}, sent)
	default:
		w.polled, w.score = sent, r.Score
		q.scheduleLocked(w, sent, r)
	}
}
