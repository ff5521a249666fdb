package relock

import (
	"strings"

	"github.com/relock-go/relock/internal/arbiter"
)

// lose ends the hold on a lease that is not ours any more, and tells it.
func (s *Session) lose(l *lease, cause error) {
	if s.forget(l) {
		s.lost(l, cause)
	}
}

// forget ends the local hold on a lease, and reports whether there was one.
func (s *Session) forget(l *lease) bool {
	switch l.kind {
	case plain:
		return s.table.Lose(l.keys.name, l) != nil
	case fair:
		return s.fairs.Lose(l.keys.name, l) != nil
	default:
		return s.rws.Lose(l.keys.name, l)
	}
}

// lost does what follows the loss of a hold.
func (s *Session) lost(l *lease, cause error) {
	s.watch.remove(l)
	if o := s.cfg.observer; o != nil {
		o.Lost(LostEvent{Name: l.keys.name, Cause: cause})
	}
	if cause == errExpired || cause == errEnded {
		s.clean.add(l, l.unclear, nil) // its key may outlive our deadline
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
	leases := s.rws.Leases(name)
	for _, t := range []*arbiter.Table[*lease]{s.table, s.fairs} {
		if h := t.Lookup(name); h != nil {
			leases = append(leases, h.Lease)
		}
	}
	for _, l := range leases {
		if strings.TrimSuffix(l.id, ":write") == id {
			s.lose(l, errForced)
		}
	}
}
