package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/quorum"
)

// A Redlock is a lock over several independent Redis deployments: it is held as long as
// a majority of them say so, and so survives the loss of a minority with all data. The
// algorithm is that of the Redis documentation ("Distributed Locks with Redis").
//
// It is a [Locker], re-entrant per owner; handles of one name over the same sessions are the same lock.
//
// Lock asks all deployments at the same time, each for a bounded time, and waits for no more than a majority. It
// counts only if the lease, less the time that took, less the drift of clocks,
// is not over. Otherwise it gives everything back and tries again after a random pause of up to 150 ms. While it is held every deployment renews its part;
// a deployment that was missing, or lost its part, is asked again. Done closes when
// fewer than a majority are certain.
//
// A deployment where the key of that name is no lock counts like one that is down; a
// majority of such deployments is [ErrNotLock].
//
// It has no fencing token: the deployments count independently of each other. A server
// that restarts without its data, or whose clock jumps, may grant a second time; with a
// majority of such servers within one lease exclusion is lost.
type Redlock struct {
	_ noCopy
	l *quorum.Redlock
}

var _ Locker = (*Redlock)(nil)

// NewRedlock returns a lock of the given name over the deployments of sessions: an odd
// number of them, three or more, that share nothing. Two survive the loss of none, and
// an even number of no more than the odd one below; they are allowed all the same. It
// sends nothing and cannot fail: no session, a nil one, or two on one deployment, and a
// bad name or option, are reported by the first call.
//
// The lease is the sessions' own (the shortest of them counts), or that of [WithLease]
// or [WithFixedLease].
func NewRedlock(sessions []*Session, name string, opts ...LockOption) *Redlock {
	deployments := make([]quorum.Session, len(sessions))
	for i, s := range sessions {
		if s != nil {
			deployments[i] = quorum.Session{Engine: s.e, Table: s.redlocks}
		}
	}
	return &Redlock{l: quorum.New(deployments, name, lockConfigOf(opts))}
}

// Name returns the name of the lock.
func (r *Redlock) Name() string { return r.l.Name() }

// Lock locks r; see [Locker]. It rides out deployments that are down, also if they are a
// majority.
func (r *Redlock) Lock(ctx context.Context) error { return r.l.Lock(ctx) }

// TryLock makes one attempt; see [Locker]. If so many deployments fail that no majority
// is left, it returns their errors.
func (r *Redlock) TryLock(ctx context.Context) (bool, error) { return r.l.TryLock(ctx) }

// Unlock ends one Lock of r; see [Locker]. It waits until a majority has confirmed the release; the others go on in the
// background.
func (r *Redlock) Unlock(ctx context.Context) error { return r.l.Unlock(ctx) }

// Done returns a channel that is closed when the latest hold taken through r ends: when
// fewer than a majority of the deployments are certain, or by Unlock; see [Locker].
func (r *Redlock) Done() <-chan struct{} { return r.l.Done() }

// Err tells whether the latest hold taken through r is held; see [Locker].
func (r *Redlock) Err() error { return r.l.Err() }

// Deadline returns the time until which a majority of the deployments is certain as of
// now; see [Mutex.Deadline].
func (r *Redlock) Deadline() (time.Time, bool) { return r.l.Deadline() }

func (r *Redlock) member() engine.Member { return r.l }
