package relock

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
)

// lose ends the hold on a lease that is not ours any more, and tells it.
func (s *Session) lose(l *lease, cause error) {
	if n := s.forget(l); n > 0 {
		s.lost(l, cause, n)
	}
}

// forget ends the local holds on a lease, and returns how many there were: only a
// read lease may have several.
func (s *Session) forget(l *lease) int {
	var h *hold
	switch l.kind {
	case plain:
		h = s.table.Lose(l.keys.name, l)
	case fair:
		h = s.fairs.Lose(l.keys.name, l)
	default:
		return s.rws.Lose(l.keys.name, l)
	}
	if h == nil {
		return 0
	}
	return 1
}

// lost does what follows the loss of the n holds on a lease.
func (s *Session) lost(l *lease, cause error, n int) {
	s.watch.remove(l)
	s.tellLost(l, cause, n)
	if cause == errExpired || cause == errEnded || l.kind == read {
		s.clean.add(l, l.unclear, nil) // its keys may outlive our deadline
	}
}

func (s *Session) tellLost(l *lease, cause error, n int) {
	if o := s.cfg.observer; o != nil {
		for range n {
			o.Lost(LostEvent{Name: l.keys.name, Cause: cause})
		}
	}
}

// onMessage sees every message before the topics do, and reports whether it was for
// the session itself. It must not block.
func (s *Session) onMessage(channel, message string) bool {
	switch {
	case isSessionChannel(channel):
		verb, rest, _ := strings.Cut(message, " ")
		if id, name, ok := strings.Cut(rest, " "); ok && verb == "lost" {
			s.forced(id, name)
			return true
		}
	case strings.HasPrefix(channel, prefixGrant):
		return s.room.granted(message)
	}
	return false
}

// forced handles "lost <hold id> <name>": somebody forced the lock open.
func (s *Session) forced(id, name string) {
	s.forces.note(id, s.clock.now()) // first: whoever is granted it looks there last
	for _, l := range s.leasesOf(name) {
		if strings.TrimSuffix(l.id, ":write") == id {
			s.lose(l, errForced)
		}
	}
}

// lateForces are the hold ids that were forced open in the last moments. The message
// may come before the reply that grants the hold.
type lateForces struct {
	last atomic.Int64 // when the latest came

	mu  sync.Mutex // protects the following
	ids []force
}

type force struct {
	id string
	at int64
}

// forcesKept is how long the reply to an acquisition may come after the message.
const forcesKept = int64(10 * time.Second)

func (f *lateForces) note(id string, now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := 0
	for old < len(f.ids) && f.ids[old].at < now-forcesKept {
		old++
	}
	f.ids = append(slices.Delete(f.ids, 0, old), force{id, now})
	f.last.Store(now)
}

func (f *lateForces) has(id string, since int64) bool {
	if f.last.Load() < since {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.ids, func(x force) bool { return x.id == id })
}

// took takes charge of a lease after it was granted to a local hold, which it may have
// lost already.
func (s *Session) took(l *lease, max time.Duration) {
	s.watch.add(l, max)
	if s.forces.has(strings.TrimSuffix(l.id, ":write"), l.sent) {
		s.lose(l, errForced)
	}
}

// leasesOf returns what the session holds of the locks of a name.
func (s *Session) leasesOf(name string) []*lease {
	leases := s.rws.Leases(name)
	for _, t := range []*arbiter.Table[*lease]{s.table, s.fairs} {
		if h := t.Lookup(name); h != nil {
			leases = append(leases, h.Lease)
		}
	}
	return leases
}
