package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/quorum"
)

// A Redlock is a lock over several independent Redis deployments, by the algorithm of the Redis
// documentation: it is held as long as a majority of them say so, and survives the loss of a minority
// with all data. It is re-entrant per owner; handles of one name over the same sessions are the same lock.
//
// Lock asks all deployments at the same time, each for a bounded time, and waits for a majority. The hold
// has the largest of their fencing tokens, and where theirs are smaller a second round trip writes it to
// them. It counts only if a majority has that token, and if its lease, less the time that took and the
// drift of clocks, is not over; otherwise everything is given back, and tried again after a random pause of
// up to 150 ms. Every part is renewed, and a deployment that was missing is asked again. Done closes when
// fewer than a majority are certain.
//
// Tokens grow from hold to hold, whichever majority granted it: of two majorities one deployment had the
// token of the former hold, and then granted the later one. The clocks of the deployments need not agree. A
// token is no use by itself: what the lock protects must refuse one that is smaller than the largest it has
// seen.
//
// A deployment where the key of that name is no lock counts like one that is down; a majority of such
// deployments is [ErrNotLock]. A server that restarts without its data, or whose clock jumps, may grant
// the lock a second time: if such servers within one lease, and those that the hold is missing on, are a
// majority, exclusion is lost. If such servers and those that were missing are a majority before their
// clocks have passed the last token, the next one may be smaller.
type Redlock struct {
	_ noCopy
	l *quorum.Redlock
}

var _ Locker = (*Redlock)(nil)

// NewRedlock returns a lock of the given name over the deployments of sessions: three or five that share
// nothing. It sends nothing and cannot fail: the first call reports no session, a nil one, two on one
// deployment, or a bad name or option. The lease is the shortest of the sessions', unless an option gives
// another.
func NewRedlock(sessions []*Session, name string, opts ...LockOption) *Redlock {
	deployments := make([]quorum.Session, len(sessions))
	for i, s := range sessions {
		if s != nil {
			deployments[i] = quorum.Session{Engine: s.e, Table: s.redlocks}
		}
	}
	return &Redlock{l: quorum.New(deployments, name, unkeptConfigOf(opts))}
}

// Name returns the name of the lock.
func (r *Redlock) Name() string { return r.l.Name() }

// Lock locks r; see [Locker]. It waits while a majority is down.
func (r *Redlock) Lock(ctx context.Context) error { return r.l.Lock(ctx) }

// TryLock makes one attempt; see [Locker]. If so many deployments fail that no majority
// is left, it returns their errors.
func (r *Redlock) TryLock(ctx context.Context) (bool, error) { return r.l.TryLock(ctx) }

// Unlock ends one Lock of r; see [Locker]. It waits until a majority has confirmed the release; the others go on in the
// background.
func (r *Redlock) Unlock(ctx context.Context) error { return r.l.Unlock(ctx) }

// Done tells when the latest hold ends; see [Locker].
func (r *Redlock) Done() <-chan struct{} { return r.l.Done() }

// Err tells of the latest hold; see [Locker].
func (r *Redlock) Err() error { return r.l.Err() }

// FencingToken returns the fencing token of the latest hold; see [Mutex.FencingToken].
func (r *Redlock) FencingToken() int64 { return r.l.FencingToken() }

// Deadline returns the time until which a majority of the deployments is certain as of
// now; see [Mutex.Deadline].
func (r *Redlock) Deadline() (time.Time, bool) { return r.l.Deadline() }

func (r *Redlock) member() engine.Member { return r.l }
