package lease

import (
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A renewal is due a third of the lease after the last success was sent. Leases that are due within
// a twelfth are renewed with it: those that share a script stay together from then on. A lease that
// another's release has granted is a grant timeout at first, and gets its length after
// confirmAfter; a fixed one too.

// RunRenewals sends renewals until Ctx ends.
func (w *Watchdog) RunRenewals() {
	defer w.rounds.Wait()
	w.renewals.Run(w.Ctx.Done(), w.rounds.Next)
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
	ctx, stop := timing.Within(w.Ctx, RoundMost(longest))
	results := w.Proto.Renew(ctx, refs)
	stop()

	var first error
	for i, r := range results {
		switch l := batch[i]; {
		case r.Err != nil:
			if first == nil {
				first = transport.Unanswered(r.Err, time.Duration(w.Clock.Now()-sent))
			}
			w.failed(l)
		case r.Gone:
			if w.gone(l) {
				w.Owner.Lost(l, lockerr.ErrGone)
			}
		default:
			w.renewed(l, sent, refs[i], r.Alone)
		}
	}
	w.Owner.Renewed(len(batch), time.Duration(w.Clock.Now()-sent), first)
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
		if w.heldLocked(l) && w.earlyLocked(l, now) {
			continue
		}
		if length == 0 || !w.heldLocked(l) || !l.Valid(now+Early) { // or Run has not seen yet that it is lost
			continue
		}
		ref := &l.Ref
		if length < l.Length || l.note.now != l.note.written {
			now := l.Ref
			now.Length = length
			if l.note.now != l.note.written {
				now.Note = wire.Note(l.note.now, true)
			}
			ref = &now
		}
		batch, refs = append(batch, l), append(refs, ref)
	}
	return batch, refs
}

// Resume records that a hold has taken l over now, which was kept. It is to outlast the same outage
// as one that was acquired: so l is renewed soon, unless that hold is over by then.
func (w *Watchdog) Resume(l *Lease, now int64) {
	l.resumed.Store(now)
	if l.checked.Load() || now-l.Known.Load() < int64(confirmAfter) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.soonLocked(l, now)
}

// Note records the note of a hold that has taken l over now. It is written to Redis unless that hold
// is over by then.
func (w *Watchdog) Note(l *Lease, text string, now int64) {
	if text == "" && !l.noted.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.noted.Store(true)
	l.note.now = text
	l.resumed.Store(now)
	w.noteLocked(l, now)
}

// noteLocked has the note of l written soon, unless l would be prolonged by that.
func (w *Watchdog) noteLocked(l *Lease, now int64) {
	if l.note.now != l.note.written && !l.Fixed {
		w.soonLocked(l, now)
	}
}

// soonLocked has l renewed soon.
func (w *Watchdog) soonLocked(l *Lease, now int64) {
	if at := now + int64(confirmAfter); w.heldLocked(l) && l.renewal.Pending() && l.renewal.At > at {
		w.checkLocked(l, at)
	}
}

func (w *Watchdog) checkLocked(l *Lease, at int64) {
	l.checked.Store(true)
	l.renewal.Slack = confirmTogether
	w.renewals.Set(&l.renewal, at)
}

// Idle records that l is kept after a hold that began at since. Another one may have taken it over
// already.
func (w *Watchdog) Idle(l *Lease, since int64) {
	if at := l.resumed.Load(); at <= since {
		l.resumed.CompareAndSwap(at, 0)
	}
}

// earlyLocked puts off a renewal that is due because of Resume, if that hold is over or another one
// has begun.
func (w *Watchdog) earlyLocked(l *Lease, now int64) bool {
	if !l.checked.Swap(false) {
		return false
	}
	switch at := l.resumed.Load(); {
	case at == 0:
		w.renewAfterLocked(l, l.Known.Load())
	case at+int64(confirmAfter-confirmTogether) > now:
		w.checkLocked(l, at+int64(confirmAfter))
	default:
		return false
	}
	return true
}

// renewed records that what was sent at sent is in Redis, but for the note if it was sent alone. A lease that is lost stays lost, and one
// that is being released is left alone.
func (w *Watchdog) renewed(l *Lease, sent int64, ref *wire.Ref, alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.heldLocked(l) {
		return
	}
	l.confirmed(ref.Length, sent)
	w.deadlines.Set(&l.deadline, l.Deadline.Load()-Early)
	w.renewAfterLocked(l, sent)
	if alone {
		return // the next renewal writes the note
	}
	if ref.Note != "" {
		l.note.written = ref.Note[1:]
	}
	w.noteLocked(l, w.Clock.Now())
}

// gone forgets a lease that Redis has no more. It reports whether it was held until then.
func (w *Watchdog) gone(l *Lease) (held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held = w.heldLocked(l)
	if held {
		w.deadlines.Stop(&l.deadline)
		w.countLocked(l)
	}
	return held
}

// failed has a renewal tried again, well within what is left of the lease.
func (w *Watchdog) failed(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.heldLocked(l) {
		return
	}
	now := w.Clock.Now()
	left := time.Duration(l.Deadline.Load() - Early - now)
	retry := timing.Jitter(max(min(l.Length/30, left/8), leastRetry))
	w.renewals.Set(&l.renewal, now+int64(retry))
}
