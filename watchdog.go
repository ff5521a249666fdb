package relock

import (
	"container/heap"
	"errors"
	"slices"
	"sync"
	"time"
)

var (
	errExpired = errors.New("its lease ran out before it could be renewed")
	errEnded   = errors.New("its lease ran out")
	errGone    = errors.New("it is not in Redis any more")
	errForced  = errors.New("it was forced open")
)

// watchdog keeps every lease of a session. Two goroutines serve all of them: run
// watches the time, and renews does the renewals. So a deadline is kept whether
// Redis answers or not.
//
// A renewal is due a third of the lease after the last success was sent. Leases
// due soon go along with those due now, in batches of batchKeys.
type watchdog struct {
	s    *Session
	kick chan struct{} // the heap's top has moved forward
	work chan struct{} // due has grown

	mu     sync.Mutex     // protects the following, and the fields of lease that say so
	heap   agenda[*lease] // every lease that is held or being released, by lease.at
	due    []*lease       // to be renewed; each is in the heap as well, at its deadline
	wakeAt int64          // when run looks next
}

const (
	early   = int64(time.Millisecond) // a loss is told that much before the deadline
	forever = int64(1) << 62
)

func newWatchdog(s *Session) *watchdog {
	return &watchdog{s: s, kick: make(chan struct{}, 1), work: make(chan struct{}, 1), wakeAt: forever}
}

// add takes charge of a lease that was just acquired.
func (w *watchdog) add(l *lease, max time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if max > 0 {
		l.maxEnd = l.since + int64(max)
	}
	l.at = w.nextLocked(l, l.sent)
	heap.Push(&w.heap, l)
	w.movedLocked(l)
}

// passed starts the bound of WithMaxHold anew for the owner that a lease was passed to.
// If several calls of the owner were let in together, the first to come here counts;
// that the owner had the lock already is no reason to change its bound.
func (w *watchdog) passed(h *hold, max time.Duration) {
	l := h.Lease
	if !h.Passed || max == 0 && !l.bounded.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.boundFor == h {
		return
	}
	l.boundFor = h
	l.bounded.Store(max > 0)
	l.maxEnd = 0
	if max > 0 {
		l.maxEnd = h.Since + int64(max)
	}
	if l.index >= 0 && !l.renewing && !l.stopped {
		w.rescheduleLocked(l, w.nextLocked(l, l.lastSent()))
	}
}

// limit bounds the renewals of a lease: none is made after end.
func (w *watchdog) limit(l *lease, end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.maxEnd = max(end, 1) // 0 means no bound
	if l.index >= 0 && !l.renewing && !l.stopped {
		w.rescheduleLocked(l, w.nextLocked(l, l.deadline.Load()-int64(l.length-margin(l.length))))
	}
}

// nextLocked returns when to look at a lease whose last success was sent at sent.
func (w *watchdog) nextLocked(l *lease, sent int64) int64 {
	deadline := l.deadline.Load() - early
	renew := sent + int64(l.length/3)
	if l.claim {
		return min(sent, deadline)
	}
	if l.fixed || l.stopped || l.maxEnd > 0 && renew > l.maxEnd {
		return deadline
	}
	return min(renew, deadline)
}

func (w *watchdog) rescheduleLocked(l *lease, at int64) {
	l.at = at
	heap.Fix(&w.heap, l.index)
	w.movedLocked(l)
}

func (w *watchdog) movedLocked(l *lease) {
	if l.at < w.wakeAt {
		wake(w.kick)
	}
}

// wake leaves one signal in c.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stop ends the renewals of a lease. The watchdog cancels ctx when the lease's
// deadline passes before remove is called.
func (w *watchdog) stop(l *lease, ctx *ioCtx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.stopped, l.release = true, ctx
	if l.index < 0 {
		ctx.cancel()
	}
}

// cancel cancels the release of a lease, if it still goes by ctx.
func (w *watchdog) cancel(l *lease, ctx *ioCtx) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.release == ctx {
		ctx.cancel()
	}
}

// remove ends the watchdog's charge of a lease.
func (w *watchdog) remove(l *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.release = nil
	if l.index >= 0 {
		heap.Remove(&w.heap, l.index)
	}
}

// all returns every lease in the watchdog's charge.
func (w *watchdog) all() []*lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heap)
}

// run keeps the time until the session stops.
func (w *watchdog) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		expired, next := w.look()
		for _, l := range expired {
			cause := errExpired
			if l.fixed || l.maxEnd > 0 {
				cause = errEnded
			}
			w.s.lose(l, cause)
		}
		timer.Reset(time.Duration(next))
		select {
		case <-timer.C:
		case <-w.kick:
		case <-w.s.stopping:
			return
		}
	}
}

// look collects what has to be done now, and returns how long to sleep.
func (w *watchdog) look() (expired []*lease, sleep int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.s.clock.now()
	for len(w.heap) > 0 && w.heap[0].at <= now {
		l := w.heap[0]
		switch deadline := l.deadline.Load() - early; {
		case now >= deadline:
			heap.Pop(&w.heap)
			if l.release != nil {
				l.release.cancel()
			}
			expired = append(expired, l)
		case l.fixed && !l.claim || l.stopped || l.renewing:
			l.at = deadline
			heap.Fix(&w.heap, 0)
		default:
			w.collectLocked(now)
		}
	}
	if len(w.heap) == 0 {
		w.wakeAt = forever
		return expired, int64(time.Hour)
	}
	// Not longer than the clock goes without looking for a suspend.
	sleep = min(w.heap[0].at-now, int64(clockRefresh))
	w.wakeAt = now + sleep
	return expired, sleep
}

// renews sends the renewals until the session stops.
func (w *watchdog) renews() {
	for {
		select {
		case <-w.work:
			w.renewDue()
		case <-w.s.stopping:
			return
		}
	}
}

func (w *watchdog) renewDue() {
	w.mu.Lock()
	batch := w.due[:0:0]
	for _, l := range w.due {
		if l.index >= 0 && !l.stopped {
			batch = append(batch, l)
		}
	}
	w.due = nil
	w.mu.Unlock()
	if len(batch) == 0 {
		return
	}

	// A Redis that hangs must not keep the next renewals waiting for long. A round trip
	// may take as long as renewals are apart.
	ctx, stop := w.s.bounded(max(w.s.cfg.lease/3, 20*time.Millisecond))
	sent := w.s.clock.now()
	results := w.s.proto.renew(ctx, batch)
	stop()

	var firstErr error
	for _, r := range results {
		switch {
		case r.err != nil:
			if firstErr == nil {
				firstErr = r.err
			}
			w.settle(r.lease, 0)
		case r.gone:
			if w.settle(r.lease, 0) {
				w.s.lose(r.lease, errGone)
			}
		default:
			w.settle(r.lease, sent)
		}
	}
	if o := w.s.cfg.observer; o != nil {
		took := time.Duration(w.s.clock.now() - sent)
		o.Renewed(RenewEvent{Holds: len(batch), Duration: took, Err: redisFailed("renew", "", firstErr)})
	}
}

// settle records the end of a renewal: success, sent at that time, or failure if
// sent is 0. It reports whether the lease is still to be kept. One that ran out
// meanwhile stays lost, and one that is being released is left to that.
func (w *watchdog) settle(l *lease, sent int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.renewing = false
	if l.index < 0 || l.stopped {
		return false
	}
	if sent > 0 {
		if until := l.certainUntil(sent); l.claim || until > l.deadline.Load() {
			l.deadline.Store(until)
		}
		l.claim = false
		w.rescheduleLocked(l, w.nextLocked(l, sent))
		return true
	}
	retry := w.s.clock.now() + int64(jitter(l.length/30))
	w.rescheduleLocked(l, min(retry, l.deadline.Load()-early))
	return true
}

func (l *lease) dueBefore(other *lease) bool { return l.at < other.at }
func (l *lease) placed(i int)                { l.index = i }
