package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/timing"
)

const (
	KeptMost     = 10_000                 // leases that a session keeps
	keptTogether = 100 * time.Millisecond // those that are to end within it end with the first
	deafMost     = time.Second            // for which it keeps them while it hears no messages: nobody could recall them
	tellEvery    = time.Second            // how often KeeperConfig.Told is called at most
)

// A Keeper knows the leases that a session keeps though nobody uses them, and until when; which of
// them the next Lock takes over is the table's to decide. One goroutine, Run, drops those whose time
// is over. The watchdog renews them like all others.
type Keeper struct {
	KeeperConfig
	Most int // KeptMost

	mu     sync.Mutex               // protects the following, and Lease.kept
	kept   *timing.Schedule[*Lease] // by the end of their time
	excess []*Lease                 // that are not to be kept
	cutOff timing.Timer[*Lease]     // of nil: when to drop all, unless messages are heard again
	hears  bool                     // messages are heard
	closed bool                     // nothing is kept any more
	report timing.Timer[*Lease]     // of toReport: when to tell how many are kept
	told   int                      // how many it was told, and when
	toldAt int64
}

// KeeperConfig configures a Keeper.
type KeeperConfig struct {
	Clock *clock.Clock
	Drop  func(l *Lease) // releases l, if it is kept
	Told  func(n int)    // is told how many are kept; nil: nobody is
}

// NewKeeper returns a keeper of nothing.
func NewKeeper(c KeeperConfig) *Keeper {
	k := &Keeper{KeeperConfig: c, Most: KeptMost}
	k.kept = timing.NewSchedule[*Lease](c.Clock, &k.mu)
	k.report.For = toReport
	k.toldAt = -int64(tellEvery)
	return k
}

var toReport = new(Lease)

// leasesLocked returns how many leases are kept.
func (k *Keeper) leasesLocked() int {
	n := k.kept.Len()
	for _, t := range []*timing.Timer[*Lease]{&k.cutOff, &k.report} {
		if t.Pending() {
			n--
		}
	}
	return n
}

// changedLocked has it told soon if the number of leases is not what was told last.
func (k *Keeper) changedLocked(now int64) {
	if k.Told != nil && !k.report.Pending() && k.leasesLocked() != k.told {
		k.kept.Set(&k.report, max(now, k.toldAt+int64(tellEvery)))
	}
}

// Keep keeps l, for d at most.
func (k *Keeper) Keep(l *Lease, d, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || !k.hears {
		k.excess = append(k.excess, l)
		timing.Signal(k.kept.Kick)
		return
	}
	l.kept.For, l.kept.Slack = l, min(time.Duration(d/10), keptTogether)
	k.kept.Set(&l.kept, now+min(d, Forever-now))
	if k.leasesLocked() > k.Most {
		k.kept.Stop(&k.report) // changedLocked sets it again
		k.excess = append(k.excess, k.kept.Pop())
		timing.Signal(k.kept.Kick)
	}
	k.changedLocked(now)
}

// Forget records that l is not kept any more.
func (k *Keeper) Forget(l *Lease, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept.Stop(&l.kept)
	k.changedLocked(now)
}

// Heard records that messages are heard from now on, or not any more.
func (k *Keeper) Heard(hears bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch k.hears = hears; {
	case hears:
		k.kept.Stop(&k.cutOff)
	case !k.cutOff.Pending():
		k.kept.Set(&k.cutOff, k.Clock.Now()+int64(deafMost))
	}
}

// Close drops everything, and keeps nothing any more.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	timing.Signal(k.kept.Kick)
}

// Run drops what is not to be kept any more, until stopping is closed.
func (k *Keeper) Run(stopping <-chan struct{}) {
	k.kept.Run(stopping, func(due []*Lease) {
		then := int64(0)
		k.mu.Lock()
		if slices.Contains(due, nil) && !k.hears || k.closed { // k.cutOff is due, or
			then = Forever
		}
		due = slices.Concat(due, k.excess, k.kept.Take(then))
		k.excess = nil
		now, kept := k.Clock.Now(), k.leasesLocked()
		tell := slices.Contains(due, toReport) && kept != k.told
		if tell {
			k.told, k.toldAt = kept, now
		} else {
			k.changedLocked(now)
		}
		k.mu.Unlock()
		for _, l := range due {
			if l != nil && l != toReport {
				k.Drop(l)
			}
		}
		if tell {
			k.Told(kept)
		}
	})
	if k.told > 0 { // Close has dropped them
		k.Told(0)
	}
}
