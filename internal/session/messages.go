package session

import (
	"strings"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/queue"
	"github.com/relock-go/relock/internal/wire"
)

// heard handles a message, and reports whether it is of a channel of the session. It does not
// block. The session hears:
//
//	wanted <hold id> <key>   another session waits for the lock with that key
//	lost <hold id> <key>     somebody has forced it open
//	granted, poll            for a waiter: see [queue.Queue.Heard]
//
// A message may overtake the reply that grants the lease that it names. So it is noted there first,
// and looked at once the lease has a hold.
func (s *Session) heard(channel, message string) bool {
	if !wire.IsSessionChannel(channel) && !wire.IsGrantChannel(channel) {
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
		if !s.Queue.Heard(message) {
			s.releaseUnknown(id, key)
		}
	}
	return true
}

// releaseUnknown gives back what was granted to a hold id of the session under which nobody waits:
// the request that queued it was late, and executed after its call had ended. rest is what follows
// the id in the message.
func (s *Session) releaseUnknown(id, rest string) {
	kind := wire.Plain
	token, _, _ := strings.Cut(rest, " ")
	switch {
	case strings.HasSuffix(id, wire.Write.Suffix()):
		kind = wire.Write
	case strings.Contains(token, "/"):
		kind = wire.Semaphore
	case len(token) == 1:
		kind = wire.Read
	}
	g, key := queue.Granted(rest, kind)
	switch {
	case !g.Granted || !wire.IsHoldOf(s.ID, id) || wire.CheckName("", key) != nil:
		return // forged
	case s.Leases.Find(id, key) != nil:
		return // it has overtaken the reply to the request that queues it
	}
	if s.unknown.Add(1) > unknownMost {
		s.unknown.Add(-1)
		return // it expires
	}
	id = strings.Clone(id)
	keys := wire.NewKeys(kind, key)
	s.Cleaner.Add(&lease.Lease{Ref: wire.Ref{
		Keys: &keys, Kind: kind, ID: id, Length: g.Term, GrantFor: wire.GrantOf(g.Term), Permits: 1,
	}}, false, func(error) { s.unknown.Add(-1) })
}

// unknownMost bounds the releases for unknown hold ids at a time: anybody who may publish can have
// a session make them.
const unknownMost = 100
