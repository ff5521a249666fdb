package lease

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Watchdog renews every lease of an engine and enforces their deadlines. Two goroutines serve
// all leases: Run watches the time, and RunRenewals sends renewals, in a cluster with one more
// goroutine for each node that has a round under way. So a deadline is kept even if Redis does
// not answer.
//
// A renewal is due a third of the lease after the last success was sent. Leases
// that are due soon are renewed with it. A lease that another's release has granted is a claim at
// first, and gets its length after confirmAfter; a fixed one too.
type Watchdog struct {
	WatchdogConfig
	kick   chan struct{}            // signals that an earlier lease is at the heap's top
	work   chan struct{}            // signals that due has grown, or a round has ended
	rounds transport.Rounds[*Lease] // of renewals

	watched atomic.Bool // somebody waits for the end of a hold
	called  atomic.Bool // a call has begun since the last look at the clock
	awake   atomic.Bool // the clock is looked at every clock.Refresh

	mu     sync.Mutex          // protects the following, and the fields of Lease that say so
	heap   timing.Heap[*Lease] // every lease held or being released, by Lease.at
	due    []*Lease            // to be renewed; each is in the heap as well, at its deadline
	wakeAt int64               // when Run wakes up next
}

// WatchdogConfig configures a Watchdog.
type WatchdogConfig struct {
	Proto     *wire.Protocol
	Clock     *clock.Clock
	Lease     time.Duration                                // of locks without one of their own
	Ctx       context.Context                              // ends the goroutines
	OnLost    func(l *Lease, cause error)                  // called for every loss
	OnRenewed func(n int, took time.Duration, first error) // called after it, unless nil
	Busy      func() bool                                  // reports whether a call is under way
	Prompt    bool                                         // somebody is told of every loss
}

// NewWatchdog returns a watchdog without leases.
func NewWatchdog(c WatchdogConfig) *Watchdog {
	w := &Watchdog{WatchdogConfig: c, kick: make(chan struct{}, 1), work: make(chan struct{}, 1), wakeAt: Forever}
	w.rounds = transport.Rounds[*Lease]{Conn: c.Proto.Conn, Key: (*Lease).LockName, Do: w.renew, Kick: w.work}
	return w
}

// Wake makes the watchdog look for renewals that another node may send now.
func (w *Watchdog) Wake() { timing.Signal(w.work) }

// Add registers a lease that was just acquired. It ends maxHold after that at the latest, unless
// maxHold is 0; it must not be shorter than l.Length.
func (w *Watchdog) Add(l *Lease, maxHold time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if maxHold > 0 {
		l.end = l.Sent + int64(min(maxHold, time.Duration(Forever)))
		if l.granted { // sent before it waited
			l.end += l.Since - l.Sent
		}
	}
	sent := l.Sent
	if l.granted { // when the last look was sent that found it waiting
		sent = l.Deadline.Load() - CertainUntil(l.Length, 0)
	}
	l.at = w.nextLocked(l, sent)
	heap.Push(&w.heap, l)
	w.movedLocked(l)
}

// nextLocked returns when to handle a lease whose last success was sent at sent.
func (w *Watchdog) nextLocked(l *Lease, sent int64) int64 {
	deadline := l.Deadline.Load() - Early
	renew := sent + int64(l.Length/3)
	if claim := l.claim.Load(); claim > 0 {
		return min(l.Since+int64(confirmAfter), deadline-claim/3)
	}
	if l.Fixed || l.stopped || l.lengthAt(renew) == 0 {
		return deadline
	}
	return min(renew, deadline)
}

func (w *Watchdog) rescheduleLocked(l *Lease, at int64) {
	l.at = at
	heap.Fix(&w.heap, l.Index)
	w.movedLocked(l)
}

func (w *Watchdog) movedLocked(l *Lease) {
	if l.at < w.wakeAt {
		timing.Signal(w.kick)
	}
}

// Stop ends the renewals of a lease that is about to be released under ctx. If Remove is not
// called until giveUp, or before the deadline, ctx is cancelled.
func (w *Watchdog) Stop(l *Lease, ctx *transport.Context, giveUp int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.stopped, l.release, l.giveUp = true, ctx, giveUp
	if l.Index < 0 {
		ctx.Cancel()
	} else if l.giveUp < l.Deadline.Load()-Early {
		w.rescheduleLocked(l, l.giveUp)
	}
}

// CancelReleases cancels the contexts of all releases under way.
func (w *Watchdog) CancelReleases() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.heap {
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
	if l.Index >= 0 {
		heap.Remove(&w.heap, l.Index)
	}
}

// All returns every lease that was added and not removed.
func (w *Watchdog) All() []*Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heap)
}

// Longest returns the length of the longest lease, 0 if there is none.
func (w *Watchdog) Longest() (d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.heap {
		d = max(d, l.Length)
	}
	return d
}

// Suspended makes the watchdog look at all leases again: the clock has jumped.
func (w *Watchdog) Suspended() { timing.Signal(w.kick) }

// Called makes the watchdog look for suspends every clock.Refresh for a while: a call has begun.
func (w *Watchdog) Called() {
	if w.called.Load() {
		return
	}
	w.called.Store(true)
	if !w.awake.Load() {
		timing.Signal(w.kick)
	}
}

// Watched makes the watchdog do so as long as there are leases: somebody waits for the end of a
// hold.
func (w *Watchdog) Watched() {
	if !w.watched.Load() {
		w.watched.Store(true)
		w.Called()
	}
}

// look returns when to look for a suspend again. If nobody would be told of a loss, it leaves that
// to others, who call Suspended: the probes of the subscription ask for the time every second. A
// call that begins meanwhile sees awake unset, or is seen here.
func (w *Watchdog) look() time.Duration {
	w.awake.Store(false)
	called := w.called.Swap(false)
	if called || w.Prompt || w.watched.Load() || w.Busy() {
		w.awake.Store(true)
		return clock.Refresh
	}
	return time.Hour
}

// Run enforces deadlines and schedules renewals until Ctx ends.
func (w *Watchdog) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		expired, next := w.advance()
		for _, l := range expired {
			w.OnLost(l, l.cause())
		}
		timer.Reset(time.Duration(next))
		select {
		case <-timer.C:
		case <-w.kick:
		case <-w.Ctx.Done():
			return
		}
	}
}

// advance handles every lease whose time has come. It returns the expired ones, and how long
// to sleep.
func (w *Watchdog) advance() (expired []*Lease, sleep int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	for len(w.heap) > 0 && w.heap[0].at <= now {
		l := w.heap[0]
		switch deadline := l.Deadline.Load() - Early; {
		case now >= deadline:
			heap.Pop(&w.heap)
			if l.release != nil {
				l.release.Cancel()
			}
			expired = append(expired, l)
		case l.Fixed && l.claim.Load() == 0 || l.stopped || l.renewing:
			if l.release != nil && now >= l.giveUp {
				l.release.Cancel()
			}
			l.at = deadline
			heap.Fix(&w.heap, 0)
		default:
			w.collectLocked(now)
		}
	}
	look := int64(w.look())
	if len(w.heap) == 0 {
		w.watched.Store(false)
		w.wakeAt = Forever
		return expired, int64(time.Hour)
	}
	sleep = min(w.heap[0].at-now, look)
	w.wakeAt = now + sleep
	return expired, sleep
}

// Before implements timing.Entry.
func (l *Lease) Before(other *Lease) bool { return l.at < other.at }

// SetIndex implements timing.Entry.
func (l *Lease) SetIndex(i int) { l.Index = i }
