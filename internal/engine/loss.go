package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/wire"
)

// lose ends the local holds on a lease that is lost, and reports the loss.
func (e *Engine) lose(l *lease.Lease, cause error) {
	if holds := e.arbiters[l.Kind].Lose(l.Keys.Name, l); len(holds) > 0 {
		e.lost(l, cause, holds)
	}
}

// Lost implements lease.Owner.
func (e *Engine) Lost(l *lease.Lease, cause error) { e.lose(l, cause) }

// Renewed implements lease.Owner.
func (e *Engine) Renewed(n int, took time.Duration, first error) {
	if e.audience != nil {
		e.Config.Hooks.Renewed(n, took, first)
	}
}

// lost follows up the loss of the holds on a lease: only a read lease may have several.
func (e *Engine) lost(l *lease.Lease, cause error, holds []*lease.Hold) {
	e.watchdog.Remove(l)
	e.reportLost(l, cause, holds)
	if cause != lease.ErrGone && cause != lease.ErrForced || l.Kind == wire.Read {
		e.cleaner.Add(l, l.Indeterminate, nil) // its keys may outlive our deadline
	}
}

// Heard handles a message to the session: "lost <hold id> <key>" if somebody forced the lock with
// that key open, or what the queue understands. It does not block.
func (e *Engine) Heard(message string) {
	text, ok := strings.CutPrefix(message, "lost ")
	if !ok {
		e.queue.Heard(message)
		return
	}
	if id, key, ok := strings.Cut(text, " "); ok && wire.IsHoldOf(e.id, id) {
		// Noted first: a hold granted meanwhile is not among leasesOf, and looks here at last.
		e.forces.note(id, e.Clock.Now())
		for _, l := range e.leasesOf(key) {
			if forcedID(l) == id {
				e.lose(l, lease.ErrForced)
			}
		}
	}
}

// forcedID returns the hold id of l as it stands in the message of a forced unlock.
func forcedID(l *lease.Lease) string { return strings.TrimSuffix(l.ID, ":write") }

// recentForces are the hold ids forced open lately: the message may overtake the reply that
// grants the hold.
type recentForces struct {
	last atomic.Int64 // time of the newest

	mu  sync.Mutex // protects the following
	ids []force
}

type force struct {
	id string
	at int64
}

const (
	forcesKept = int64(10 * time.Second) // bounds how long after the message the reply may arrive
	forcesMost = 1000
)

// note notes an id, which may be part of a long message.
func (f *recentForces) note(id string, now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := max(0, len(f.ids)-forcesMost+1)
	for old < len(f.ids) && f.ids[old].at < now-forcesKept {
		old++
	}
	f.ids = append(slices.Delete(f.ids, 0, old), force{strings.Clone(id), now})
	f.last.Store(now)
}

func (f *recentForces) has(id string, since int64) bool {
	if f.last.Load() < since {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.ids, func(x force) bool { return x.id == id })
}

// leasesOf returns the leases of the locks at a key.
func (e *Engine) leasesOf(key string) []*lease.Lease {
	as := &e.arbiters
	return slices.Concat(as[wire.Plain].Leases(key), as[wire.Fair].Leases(key), as[wire.Read].Leases(key))
}
