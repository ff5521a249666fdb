package relock

import (
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/quorum"
)

// A Redlock is a lock over several independent Redis deployments, by the algorithm of the Redis
// documentation: it is held as long as a majority of them say so, and survives the loss of a
// minority with all data. It is re-entrant per owner; all values of one name over the same sessions
// are the same lock.
//
// Lock asks all deployments at the same time, each for a bounded time, and waits for a majority.
// The hold has the largest of their fencing tokens, and where theirs are smaller a second round
// trip writes it to them. It counts only if a majority has that token, and if its lease, less the
// time that took and the drift of clocks, is not over; otherwise everything is released, and tried
// again after a random pause of up to 150 ms. The share of every deployment is renewed, and one
// that was missing is asked again. The hold is lost when it is valid on fewer than a majority.
//
// Tokens grow from hold to hold, whichever majority granted it: of two majorities one deployment
// had the token of the former hold, and then granted the later one. The clocks of the deployments
// need not agree. A token protects nothing by itself: the store must refuse one that is smaller
// than the largest it has seen.
//
// With [WithBackgroundStart] a majority of the deployments is enough at the start as well: the others
// are used when they are there.
//
// A deployment where the key of that name is not a lock counts like one that is down; a majority of
// such deployments is [ErrNotLock]. A server that restarts without its data, or whose clock jumps,
// may grant the lock a second time: if such servers within one lease, and those that the hold is
// missing on, are a majority, exclusion is lost. If such servers and those that were missing are a
// majority before their clocks have passed the last token, the next one may be smaller.
type Redlock struct{ named }

var _ Locker = (*Redlock)(nil)

// NewRedlock returns a lock of the given name over the deployments of sessions: three or five that
// share nothing. It sends nothing and cannot fail: the first call reports no session, a nil one,
// two on one deployment, or a bad name or option. The lease is the shortest of the sessions',
// unless an option gives another.
func NewRedlock(sessions []*Session, name string, opts ...LockOption) *Redlock {
	nodes := make([]*acquire.Node, len(sessions))
	for i, s := range sessions {
		if s != nil {
			nodes[i] = s.e.Node
		}
	}
	r := new(Redlock)
	r.l = quorum.New(nodes, name, unkeptConfigOf(opts))
	return r
}
