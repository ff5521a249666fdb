package session

import (
	"strings"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/wire"
)

// heard handles a message, and reports whether it is not for those that wait for one on its
// channel: they get what tells that a lock was unlocked, but for the message that only Redisson
// understands. It does not block. The session itself hears:
//
//	wanted <hold id> <key>   another session waits for the lock with that key
//	lost <hold id> <key>     somebody has forced it open
//	granted, look            for a waiter: see [queue.Queue.Heard]
//
// A message may overtake the reply that grants the lease that it names. So it is noted there first,
// and looked at once the lease has a hold.
func (s *Session) heard(channel, message string) bool {
	switch {
	case message == wire.ForRedisson:
		return true
	case !wire.IsSessionChannel(channel) && !wire.IsGrantChannel(channel):
		return false
	}
	verb, rest, _ := strings.Cut(message, " ")
	id, key, _ := strings.Cut(rest, " ")
	switch verb {
	case "wanted":
		if l := s.Leases.Find(id, key); l != nil {
			l.Wanted.Store(true)
			s.Recall(l)
		}
	case "lost":
		if l := s.Leases.Find(id, key); l != nil {
			l.Forced.Store(true)
			s.Lost(l, lockerr.ErrForced)
		}
	default:
		s.Queue.Heard(message)
	}
	return true
}
