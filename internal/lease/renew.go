package lease

import (
	"time"

	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// RunRenewals sends renewals until Ctx ends.
func (w *Watchdog) RunRenewals() {
	defer w.rounds.Wait()
	for {
		select {
		case <-w.work:
			w.rounds.Next(w.takeDue())
		case <-w.Ctx.Done():
			return
		}
	}
}

func (w *Watchdog) takeDue() []*Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.due
	w.due = nil
	return due
}

// renewalMost bounds the leases that a round of renewals waits for as long as they allow.
const renewalMost = 30 * time.Second

// renew sends one round of renewals.
func (w *Watchdog) renew(due []*Lease) {
	sent := w.Clock.Now()
	batch, refs := w.renewable(due, sent)
	if len(batch) == 0 {
		return
	}

	var longest time.Duration
	for _, l := range batch {
		longest = max(longest, min(l.Length, renewalMost))
	}
	ctx, stop := w.Proto.Bounded(w.Ctx, RoundMost(longest))
	results := w.Proto.Renew(ctx, refs)
	stop()

	var firstErr error
	for i, r := range results {
		switch {
		case r.Err != nil:
			if firstErr == nil {
				firstErr = r.Err
			}
			w.finish(batch[i], 0, 0)
		case r.Gone:
			if w.finish(batch[i], 0, 0) {
				w.OnLost(batch[i], ErrGone)
			}
		default:
			w.finish(batch[i], sent, refs[i].Length)
		}
	}
	if w.OnRenewed != nil {
		w.OnRenewed(len(batch), time.Duration(w.Clock.Now()-sent), firstErr)
	}
}

// renewable returns those of due that are to be renewed at now, and what to send for them.
// Others were released, or have come to their end, while they waited for the round before. It
// reuses due.
func (w *Watchdog) renewable(due []*Lease, now int64) (batch []*Lease, refs []*wire.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, refs = due[:0], make([]*wire.Ref, 0, len(due))
	for _, l := range due {
		length := l.lengthAt(now)
		if l.Index < 0 || l.stopped || length == 0 {
			l.renewing = false
			continue
		}
		ref := &l.Ref
		if length < l.Length {
			now := l.Ref
			now.Length = length
			ref = &now
		}
		batch, refs = append(batch, l), append(refs, ref)
	}
	return batch, refs
}

// finish records the result of a renewal: success if a lease of that length was sent at sent,
// failure if sent is 0: then it is tried again well within what is left. It reports whether the lease
// is still held: one that expired meanwhile stays lost, and one
// that is being released is left alone.
func (w *Watchdog) finish(l *Lease, sent int64, length time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.renewing = false
	if l.Index < 0 || l.stopped {
		return false
	}
	if sent > 0 {
		if until := CertainUntil(length, sent); l.claim.Load() > 0 || until > l.Deadline.Load() {
			l.Deadline.Store(until)
		}
		l.claim.Store(0)
		w.rescheduleLocked(l, w.nextLocked(l, sent))
		return true
	}
	now, deadline := w.Clock.Now(), l.Deadline.Load()-Early
	retry := timing.Jitter(max(min(l.Length/30, time.Duration(deadline-now)/8), leastRetry))
	w.rescheduleLocked(l, min(now+int64(retry), deadline))
	return true
}
