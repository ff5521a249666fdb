package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Watchdog renews every lease of a session and enforces their deadlines. Two goroutines serve
// all leases: Run enforces deadlines, and RunRenewals sends renewals, in a cluster with one more
// goroutine for each node that has a round under way. So a deadline is kept even if Redis does
// not answer.
type Watchdog struct {
	WatchdogConfig
	rounds transport.Rounds[*Lease] // of renewals

	mu        sync.Mutex               // protects the schedules, and the fields of Lease that say so
	deadlines *timing.Schedule[*Lease] // of every lease held or being released
	renewals  *timing.Schedule[*Lease] // of every lease held whose renewal is not under way
	held      int                      // how many leases are held
	none      chan struct{}            // signals that held may be 0
}

// WatchdogConfig configures a Watchdog.
type WatchdogConfig struct {
	Proto *wire.Protocol
	Clock *clock.Clock
	Lease time.Duration   // of locks without one of their own
	Ctx   context.Context // ends the goroutines
	Owner Owner
}

// An Owner of a watchdog is told what happens to its leases.
type Owner interface {
	Lost(l *Lease, cause error)
	Renewed(n int, took time.Duration, first error) // a round of renewals for n leases; its first error
}

// NewWatchdog returns a watchdog without leases.
func NewWatchdog(c WatchdogConfig) *Watchdog {
	w := &Watchdog{WatchdogConfig: c, none: make(chan struct{}, 1)}
	w.deadlines = timing.NewSchedule[*Lease](c.Clock, &w.mu)
	w.renewals = timing.NewSchedule[*Lease](c.Clock, &w.mu)
	w.rounds = transport.Rounds[*Lease]{Conn: c.Proto.Conn, Key: (*Lease).LockName, Do: w.renew, Kick: w.renewals.Kick}
	return w
}

// Run enforces deadlines until Ctx ends.
func (w *Watchdog) Run() {
	w.deadlines.Run(w.Ctx.Done(), func(due []*Lease) {
		for _, l := range w.expired(due) {
			w.Owner.Lost(l, l.cause())
		}
	})
}

// expired returns the leases whose deadline has passed, which it forgets. It cancels releases that
// take too long. What is due for neither was removed after it was taken from the schedule.
func (w *Watchdog) expired(due []*Lease) (expired []*Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range due {
		deadline := l.Deadline.Load() - Early
		if l.release != nil {
			l.release.Cancel()
		}
		if w.Clock.Now() >= deadline {
			w.renewals.Stop(&l.renewal)
			w.countLocked(l)
			expired = append(expired, l)
		} else if l.release != nil {
			w.deadlines.Set(&l.deadline, deadline)
		}
	}
	return expired
}

// Wake makes the watchdog look for renewals that another node may be sent now.
func (w *Watchdog) Wake() { timing.Signal(w.renewals.Kick) }

// Add registers a lease that was just acquired. It ends maxHold after that at the latest, unless
// maxHold is 0; it must not be shorter than l.Length.
func (w *Watchdog) Add(l *Lease, maxHold time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if maxHold > 0 {
		l.end = l.Began + int64(min(maxHold, time.Duration(Forever)))
	}
	l.deadline.For, l.renewal.For = l, l
	w.deadlines.Set(&l.deadline, l.Deadline.Load()-Early)
	w.countLocked(l)
	w.renewAfterLocked(l, l.Known.Load())
	l.resumed.Store(l.Since)
	w.noteLocked(l, l.Since)
}

const together = time.Millisecond // for which a renewal waits for others: one that misses a round waits for its end

// renewAfterLocked schedules the renewal that follows a success that was sent at sent.
func (w *Watchdog) renewAfterLocked(l *Lease, sent int64) {
	at, slack := l.nextRenewal(sent)
	l.renewal.Slack = min(slack, w.Lease/12)
	w.renewals.Set(&l.renewal, max(at, w.Clock.Now()+int64(together)))
}

// RenewNow has l renewed at once, which tells whether Redis still has it.
func (w *Watchdog) RenewNow(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heldLocked(l) {
		w.renewals.Set(&l.renewal, w.Clock.Now())
	}
}

// RenewAll has all leases renewed at once, but for those that are not renewed any more.
func (w *Watchdog) RenewAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	for _, l := range w.deadlines.All() {
		if w.heldLocked(l) && l.renewal.Pending() && l.renewal.At < Forever {
			l.checked.Store(false)
			w.renewals.Set(&l.renewal, now)
		}
	}
}

// heldLocked reports whether l is neither lost nor being released.
func (w *Watchdog) heldLocked(l *Lease) bool { return l.deadline.Pending() && l.release == nil }

// countLocked follows up a change of what heldLocked reports of l.
func (w *Watchdog) countLocked(l *Lease) {
	switch held := w.heldLocked(l); {
	case held && !l.counted:
		w.held++
	case !held && l.counted:
		w.held--
	}
	if l.counted = w.heldLocked(l); w.held == 0 {
		timing.Signal(w.none)
	}
}

// AwaitNone blocks until no lease is held, or enough is closed. Only one goroutine may call it.
func (w *Watchdog) AwaitNone(enough <-chan struct{}) {
	for len(w.Held()) > 0 {
		select {
		case <-w.none:
		case <-enough:
			return
		}
	}
}

// Held returns the leases that are held: neither lost nor being released.
func (w *Watchdog) Held() []*Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == 0 {
		return nil
	}
	return slices.DeleteFunc(w.deadlines.All(), func(l *Lease) bool { return !w.heldLocked(l) })
}

// Stop ends the renewals of a lease that is about to be released under ctx. If Remove is not
// called until giveUp, or before the deadline, ctx is cancelled.
func (w *Watchdog) Stop(l *Lease, ctx *transport.Context, giveUp int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.release = ctx
	w.countLocked(l)
	w.renewals.Stop(&l.renewal)
	if !l.deadline.Pending() {
		ctx.Cancel()
		return
	}
	w.deadlines.Set(&l.deadline, min(giveUp, l.Deadline.Load()-Early))
}

// GiveUp has ctx cancelled at a time, unless the release under it is over by then.
func (w *Watchdog) GiveUp(l *Lease, ctx *transport.Context, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.release == ctx && at < l.deadline.At {
		w.deadlines.Set(&l.deadline, at)
	}
}

// CancelReleases cancels the contexts of all releases under way.
func (w *Watchdog) CancelReleases() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.deadlines.All() {
		if l.release != nil {
			l.release.Cancel()
		}
	}
}

// Remove forgets a lease.
func (w *Watchdog) Remove(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.release = nil
	w.renewals.Stop(&l.renewal)
	w.deadlines.Stop(&l.deadline)
	w.countLocked(l)
}

// All returns every lease that was added and not removed.
func (w *Watchdog) All() []*Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadlines.All()
}
