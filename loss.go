package relock

import (
	"strings"

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
	for _, l := range s.leasesOf(name) {
		if strings.TrimSuffix(l.id, ":write") == id {
			s.lose(l, errForced)
		}
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
