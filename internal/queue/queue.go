package queue

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Queue keeps the contenders of an engine: the hold ids that wait in Redis for a lock. One
// goroutine, Run, probes all of them in batches, in a cluster with one more goroutine for each
// node that has a round under way. A probe is a script that keeps a place alive and returns
// whether it was granted.
//
// When is a grant certain? Its message may lie in a socket buffer while the process is frozen, so
// that its arrival proves nothing. But the last request that found the contender not granted was
// executed after it was sent: the claim began later, and so lasts until that time plus its
// length. This holds because an id is queued once only: the message cannot be of an older
// grant.
type Queue struct {
	Config
	kick   chan struct{} // signals that a probe is due earlier than Run expects, or a round has ended
	probes transport.Rounds[*Waiter]

	mu      sync.Mutex           // protects the following, and what says so; taken after the broker's mutex
	waiters map[string]*Waiter   // by hold id
	heap    timing.Heap[*Waiter] // not being probed, by Waiter.next
	wakeAt  int64                // when Run wakes up next; 0 while it works
	early   early                // messages
	polls   int                  // how many of waiters poll
	gap     int64                // when messages on the session's channel may have been missed last
}

// Config configures a Queue.
type Config struct {
	Proto   *wire.Protocol
	Broker  *pubsub.Broker
	Clock   *clock.Clock
	Session string          // its id
	Ctx     context.Context // ends the goroutine
}

// A Waiter is one hold id that waits for a lock.
type Waiter struct {
	C   chan struct{} // signals that something may have changed
	ref wire.Ref      // a copy: the call may go on under another id during a probe

	// Set by the goroutine that adds the waiter, and by probes before they look.
	grants *pubsub.Listener // where pub/sub is sharded
	freed  *pubsub.Listener // to the lock's channel, once Redisson had the lock; guarded by Queue.mu

	// Guarded by Queue.mu.
	probed     int64 // when the last request was sent that found it waiting
	err        error // why the last probe failed, if it did; C signals when that changes to or from nil
	next       int64 // when to probe next
	theirs     int64 // since when it polls, because Redisson has the lock, or its turn; 0: it does not
	index      int   // in Queue.heap; -1: not there
	probeAgain bool  // probe once more after the probe under way

	// The answer, guarded by Queue.mu.
	grant Grant
	lost  bool // its place is lost: queue under another id
}

// deaf is how often a contender looks that cannot be told of a grant.
const deaf = 100 * time.Millisecond

// New returns a queue without contenders.
func New(c Config) *Queue {
	q := &Queue{
		Config: c, kick: make(chan struct{}, 1), wakeAt: lease.Forever,
		waiters: make(map[string]*Waiter), early: make(early),
	}
	q.probes = transport.Rounds[*Waiter]{Conn: c.Proto.Conn, Key: (*Waiter).lockName, Do: q.probe, Kick: q.kick}
	return q
}

// Wake makes Run look for probes that another node may be sent now.
func (q *Queue) Wake() { timing.Signal(q.kick) }

// Len returns the number of contenders for the lock with a key. It is for tests.
func (q *Queue) Len(key string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters {
		if w.ref.Keys.Name == key {
			n++
		}
	}
	return n
}

// Add registers a hold that may have a place in the queue since a request sent at sent, and looks
// at the lock no later than after ttl. What was heard of it since is not forgotten. Remove must
// follow.
func (q *Queue) Add(hold wire.Ref, sent int64, ttl time.Duration) *Waiter {
	w := &Waiter{ref: hold, C: make(chan struct{}, 1), index: -1, probed: sent}
	if q.sharded() {
		w.grants = q.Broker.SubscribeFunc(hold.Keys.Grants(q.Session), func() { q.look(w) })
	}
	hears := q.hears(w)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[w.ref.ID] = w
	if m, ok := q.early.take(w.ref.ID); ok {
		q.heardLocked(w, m)
	}
	if q.gap >= sent {
		w.probeAgain = true
	}
	if w.grant.Token == 0 {
		q.scheduleLocked(w, q.after(w, sent, ttl, hears))
	}
	return w
}

// Remove ends the waiting of w.
func (q *Queue) Remove(w *Waiter) {
	q.mu.Lock()
	delete(q.waiters, w.ref.ID)
	q.unscheduleLocked(w)
	q.pollsLocked(w, false)
	freed := w.freed
	q.mu.Unlock()
	for _, l := range []*pubsub.Listener{w.grants, freed} {
		if l != nil {
			l.Unsubscribe()
		}
	}
}

// sharded reports whether grants come on a channel for each lock.
func (q *Queue) sharded() bool { return q.Proto.PubSub == wire.Sharded }

// hears reports whether w would be told of a grant now. It takes the broker's mutex.
func (q *Queue) hears(w *Waiter) bool {
	if w.grants != nil {
		return w.grants.Live()
	}
	return q.Broker.Live(wire.PrefixSession + q.Session)
}

// ErrSilent: Redis has not answered a probe for a claim, or for silentFrom if that is longer.
var ErrSilent = errors.New("no answer from Redis")

const silentFrom = time.Second

// Probed returns when the last request was sent that found w waiting, and why the last probe
// failed, if it did.
func (q *Queue) Probed(w *Waiter) (at int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.probed, w.err
}

// after returns when to probe a contender again whose last request was sent at sent, if the lock
// may become free after ttl from now. Requests are sent at most a third of a claim apart: the time of
// sending counts for a grant.
func (q *Queue) after(w *Waiter, sent int64, ttl time.Duration, hears bool) int64 {
	claim := w.ref.Claim
	at := sent + int64(claim/4) + rand.N(int64(claim/12)+1)
	now := q.Clock.Now()
	if !hears {
		at = min(at, now+int64(timing.Jitter(deaf)))
	}
	if ttl >= 0 && ttl < claim {
		at = min(at, now+int64(ttl+time.Millisecond))
	}
	return at
}

// scheduleLocked schedules a probe of w at a time, or now if something happened meanwhile.
func (q *Queue) scheduleLocked(w *Waiter, at int64) {
	if w.probeAgain {
		at = 0
	}
	w.next = at
	heap.Push(&q.heap, w)
	if w.next < q.wakeAt {
		timing.Signal(q.kick)
	}
}

func (q *Queue) unscheduleLocked(w *Waiter) {
	if w.index >= 0 {
		heap.Remove(&q.heap, w.index)
	}
}

// Resubscribed looks at all locks that are waited for, because the subscription to the session's
// channel was confirmed or broke: grants may have been missed.
func (q *Queue) Resubscribed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gap = q.Clock.Now()
	if q.sharded() {
		return
	}
	for _, w := range q.waiters {
		q.lookLocked(w, 0)
	}
}

// look probes w soon. It may be called with the broker's mutex held.
func (q *Queue) look(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiters[w.ref.ID] == w {
		q.lookLocked(w, 0)
	} else {
		w.probeAgain = true // about to be added
	}
}

// lookLocked probes w at a time, if that is sooner than planned.
func (q *Queue) lookLocked(w *Waiter, at int64) {
	switch {
	case w.grant.Token > 0:
	case w.index < 0:
		w.probeAgain = true // being probed
	case at < w.next:
		w.next = at
		heap.Fix(&q.heap, w.index)
		if at < q.wakeAt {
			timing.Signal(q.kick)
		}
	}
}

func (w *Waiter) lockName() string { return w.ref.Keys.Name }

// Before implements timing.Entry.
func (w *Waiter) Before(other *Waiter) bool { return w.next < other.next }

// SetIndex implements timing.Entry.
func (w *Waiter) SetIndex(i int) { w.index = i }
