package relock

import (
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/quorum"
)

// A Redlock is a lock over several independent Redis deployments, by the algorithm of the Redis
// documentation. It is held while a majority of them say so, and survives the loss of a minority
// with all data. It is re-entrant per owner. All values of one name over the same sessions are the
// same lock.
//
// Lock asks all deployments at once, each for a bounded time, and waits for a majority. The hold
// has the largest of their tokens; a second round trip writes it to those with a smaller one. The
// hold counts only if a majority has that token, and if its lease, less that time and the drift of
// clocks, is not over. Otherwise everything is released, and tried again after a random pause of up
// to 150 ms. Every deployment's share is renewed, and missing ones are asked again. The hold is
// lost when it is valid on fewer than a majority.
//
// With [WithBackgroundStart] a majority is enough at the start; the others join once they are up.
//
// A deployment where the key of that name is not a lock counts like one that is down; a majority of
// those is [ErrNotLock]. A server that restarts without its data, or whose clock jumps, may grant
// the lock again. If such servers within one lease, and those that the hold is missing on, are a
// majority, exclusion is lost. If all of these are a majority before their clocks have passed the
// last token, the next token may be smaller.
type Redlock struct{ named }

var _ Locker = (*Redlock)(nil)

// NewRedlock returns the lock of that name over the deployments of sessions: three or five that
// share nothing. It sends nothing and cannot fail: the first call reports no session, a nil one,
// two on one deployment, or a bad name or option. The lease is the shortest of the sessions',
// unless an option sets one.
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
