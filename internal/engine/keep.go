package engine

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/event"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

const (
	keptMost     = 10_000                 // leases that a session keeps; see Engine.KeepAtMost
	keptTogether = 100 * time.Millisecond // those that are to end within it end with the first
	deafMost     = time.Second            // for which it keeps them while it hears no messages: nobody could recall them

	// After a recall a name is not kept for coolPaid, if the lease was taken over keptPays times:
	// that has saved many times what the recall costs. Else other processes use the name as much,
	// and it is not kept for coolFirst; for twice as long if the next recall follows within
	// coolMost after that, up to coolMost.
	keptPays  = 16
	coolPaid  = time.Second
	coolFirst = 10 * time.Second
	coolMost  = time.Minute
)

// A keeper knows the leases that the session keeps though nobody uses them, and how long; which of
// them the next Lock takes over is the arbiter's to decide. One goroutine, run, releases those
// whose time is over. The watchdog renews them like all others.
type keeper struct {
	e *Engine

	mu      sync.Mutex                     // protects the following, and Lease.Kept; taken with a shard of the arbiter locked
	kept    *timing.Schedule[*lease.Lease] // by the end of their time
	excess  []*lease.Lease                 // beyond keptMost
	hears   int64                          // since when the session hears messages, lease.Forever while it does not
	deaf    timing.Timer[*lease.Lease]     // of nil: when to release all, unless it hears them again
	report  timing.Timer[*lease.Lease]     // of toReport: when to tell the observer how many are kept
	told    int                            // how many it was told, and when
	toldAt  int64
	cooling map[string]cooling // by the key of the lock
	most    int                // keptMost
	sweepAt int                // when to forget those of cooling that are over: at that number
}

// cooling says until when a lock is not kept, and for how long that is.
type cooling struct{ until, length int64 }

func newKeeper(e *Engine) *keeper {
	k := &keeper{e: e, hears: lease.Forever, most: keptMost, cooling: make(map[string]cooling)}
	k.kept = timing.NewSchedule[*lease.Lease](e.Clock, &k.mu)
	k.report.For = toReport
	k.toldAt = -int64(reportEvery)
	return k
}

// reportEvery is how often the observer is told at most how many leases are kept.
const reportEvery = time.Second

var toReport = new(lease.Lease)

// leasesLocked returns how many leases are kept.
func (k *keeper) leasesLocked() int {
	n := k.kept.Len()
	for _, t := range []*timing.Timer[*lease.Lease]{&k.deaf, &k.report} {
		if t.Pending() {
			n--
		}
	}
	return n
}

// changedLocked has the observer told soon if the number of leases is not what it was told last.
func (k *keeper) changedLocked(now int64) {
	if k.e.Config.Observer != nil && !k.report.Pending() && k.leasesLocked() != k.told {
		k.kept.Set(&k.report, max(now, k.toldAt+int64(reportEvery)))
	}
}

// keep decides for the arbiter whether l is kept, for d at most.
func (k *keeper) keep(l *lease.Lease, d, now int64) bool {
	if !l.Renewed {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.e.Draining() || k.hears == lease.Forever || len(k.cooling) > 0 && now < k.cooling[l.Keys.Name].until {
		return false
	}
	l.Kept.For, l.Kept.Slack = l, min(time.Duration(d/10), keptTogether)
	k.kept.Set(&l.Kept, now+min(d, lease.Forever-now))
	if k.leasesLocked() > k.most {
		k.kept.Stop(&k.report) // changedLocked sets it again
		k.excess = append(k.excess, k.kept.Pop())
		timing.Signal(k.kept.Kick)
	}
	k.changedLocked(now)
	return true
}

// resume decides for the arbiter whether the next Lock takes l over, which is not kept any more.
// Nobody else has wanted it, so its tenure starts again. If the session has missed messages since
// Redis was last known to have l, somebody may have forced it open.
func (k *keeper) resume(l *lease.Lease, length, now int64) (token int64, ok bool) {
	k.mu.Lock()
	k.kept.Stop(&l.Kept)
	l.Uses++
	missed := l.Confirmed() < k.hears
	k.changedLocked(now)
	k.mu.Unlock()
	if missed {
		return 0, false
	}
	token, ok = k.e.next(l, length, now)
	if ok {
		l.Turn = now
	}
	return token, ok
}

// forget records that l is not kept any more.
func (k *keeper) forget(l *lease.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept.Stop(&l.Kept)
	k.changedLocked(k.e.Clock.Now())
}

// cool records that somebody else wants the lock that l is for: it is not kept for a while. However
// often that is said of one lease, it counts as one recall.
func (k *keeper) cool(l *lease.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.e.Clock.Now()
	c := k.cooling[l.Keys.Name]
	switch {
	case l.Cools || now < c.until: // it has not been kept since
	case l.Uses >= keptPays:
		c.length = int64(coolPaid)
	case now < c.until+int64(coolMost):
		c.length = min(max(2*c.length, int64(coolFirst)), int64(coolMost))
	default:
		c.length = int64(coolFirst)
	}
	l.Cools = true
	c.until = now + c.length
	if len(k.cooling) >= k.sweepAt {
		for key, c := range k.cooling {
			if now >= c.until+int64(coolMost) {
				delete(k.cooling, key)
			}
		}
		k.sweepAt = max(1024, 2*len(k.cooling))
	}
	k.cooling[strings.Clone(l.Keys.Name)] = c
}

// subscribed follows up that the session's channel is subscribed, or is not any more. Somebody may
// have forced its locks open meanwhile: renewals tell. The broker's mutex is locked.
func (k *keeper) subscribed(live bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, heard := k.e.Clock.Now(), k.hears != lease.Forever
	switch {
	case live && !heard:
		k.hears = now
		k.kept.Stop(&k.deaf)
		k.e.watchdog.RenewAll()
	case !live && heard:
		k.hears = lease.Forever
		k.kept.Set(&k.deaf, now+int64(deafMost))
	}
}

// Keeps returns the hold id under which the session keeps the lock of a name; "" if it does not.
func (e *Engine) Keeps(name string) string {
	if l, kept := e.arbiters[wire.Plain].Kept(e.keyOf(name)); kept {
		return l.ID
	}
	return ""
}

// run releases what is not to be kept any more, all when the engine drains, until the engine's
// goroutines end.
func (k *keeper) run() {
	k.kept.Run(k.e.ioCtx.Done(), func(due []*lease.Lease) {
		then := int64(0)
		k.mu.Lock()
		if slices.Contains(due, nil) && k.hears == lease.Forever || k.e.Draining() { // k.deaf is due, or
			then = timing.Forever
		}
		due = slices.Concat(due, k.excess, k.kept.Take(then))
		k.excess = nil
		now, kept := k.e.Clock.Now(), k.leasesLocked()
		tell := slices.Contains(due, toReport) && kept != k.told
		if tell {
			k.told, k.toldAt = kept, now
		} else {
			k.changedLocked(now)
		}
		k.mu.Unlock()
		for _, l := range due {
			if l != nil && l != toReport {
				k.e.drop(l)
			}
		}
		if tell {
			k.e.Config.Observer.Kept(event.Keep{Session: k.e.id, Leases: kept})
		}
	})
	if k.told > 0 { // Close has released them
		k.e.Config.Observer.Kept(event.Keep{Session: k.e.id})
	}
}
