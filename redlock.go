package relock

import (
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/quorum"
)

// A Redlock is a re-entrant lock over several independent Redis deployments, by the algorithm of
// the Redis documentation. It is held while a majority of them say so, and survives the loss of a
// minority with all data. All values of one name over the same sessions are the same lock.
//
// Lock asks all deployments at once, each for a bounded time. The hold has the largest of their
// tokens, and counts only if a majority has that token before the lease, less the drift of clocks,
// is over. Otherwise everything is released, and tried again after a random pause. The hold is lost
// when it is valid on fewer than a majority; renewals ask missing deployments again.
//
// A deployment where the key is not a lock counts as down; a majority of those is [ErrNotLock]. A
// server that restarts without its data, or whose clock jumps, may grant the lock again. Exclusion
// is lost if such servers within one lease, and those that the hold is missing on, are a majority;
// the next token may then be smaller, if their clocks have not passed the last one.
type Redlock struct{ named }

var _ Locker = (*Redlock)(nil)

// NewRedlock returns the lock of that name over the deployments of sessions: three or five that
// share nothing. It sends nothing and cannot fail: the first call returns [ErrOption] for no
// session, a nil one, or two on one deployment, and reports a bad name or option. The lease is the
// shortest of the sessions', unless an option sets one.
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
