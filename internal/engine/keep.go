package engine

import (
	"maps"
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

	unkept = time.Second // for which a name is not kept after it was recalled
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
	until   map[string]int64 // until when locks are not kept, by their keys
	sweepAt int              // when to forget those of until that are over: at that number
	most    int              // keptMost
}

func newKeeper(e *Engine) *keeper {
	k := &keeper{e: e, hears: lease.Forever, most: keptMost, until: make(map[string]int64)}
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
	if k.e.Draining() || k.hears == lease.Forever || len(k.until) > 0 && now < k.until[l.Keys.Name] {
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

// recalled records that another process wants the lock at a key: it is not kept for a while.
func (k *keeper) recalled(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.e.Clock.Now()
	if len(k.until) >= k.sweepAt {
		maps.DeleteFunc(k.until, func(_ string, until int64) bool { return now >= until })
		k.sweepAt = max(1024, 2*len(k.until))
	}
	k.until[strings.Clone(key)] = now + int64(unkept)
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
