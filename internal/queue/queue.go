package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Queue keeps the waiters of an engine's FairMutexes. One goroutine, Run, probes all of them in
// batches, in a cluster with one more goroutine for each node that has a round under way. A probe
// is a script that keeps a place alive and returns whether it was granted.
//
// When is a grant certain? Its message may lie in a socket buffer while the process is frozen, so
// that its arrival proves nothing. But the last probe that found the waiter not granted was
// executed after it was sent: the claim began later, and so lasts until that time plus its
// length. This holds because an id is enqueued once only: the message cannot be of an older
// grant.
type Queue struct {
	Config
	kick   chan struct{} // signals that a probe is due earlier than Run expects, or a round has ended
	probes transport.Rounds[*Waiter]

	opening sync.Mutex                // protects subs and users; taken before the broker's mutex
	subs    map[string]*subscriptions // by name of the lock

	mu      sync.Mutex           // protects the following, and what says so; taken after the broker's mutex
	waiters map[string]*Waiter   // by hold id
	heap    timing.Heap[*Waiter] // enqueued and not being probed, by Waiter.next
	wakeAt  int64                // when Run wakes up next; 0 while it works
}

// Config configures a Queue.
type Config struct {
	Proto    *wire.Protocol
	Broker   *pubsub.Broker
	Clock    *clock.Clock
	Session  string          // its id
	Ctx      context.Context // ends with Stopping
	Stopping <-chan struct{} // ends the goroutine
}

// A Waiter is one hold id that waits for a lock.
type Waiter struct {
	C    chan struct{} // signals that something may have changed
	ref  wire.Ref      // a copy: the call may go on under another id during a probe
	subs *subscriptions

	// Guarded by Queue.mu.
	probed     int64 // when the last probe was sent that found it waiting
	next       int64 // when to probe next
	index      int   // in Queue.heap; -1: not there
	probeAgain bool  // probe once more after the probe under way
	prober     bool  // its next probe finds out whether the lock is free

	// The answer, guarded by Queue.mu.
	token int64 // of the grant; 0: not granted
	until int64 // the grant is certain until then
	lost  bool  // its place is lost: enqueue under another id
}

// subscriptions are those of a name, for as long as it has waiters.
type subscriptions struct {
	users  int              // guarded by Queue.opening
	grants *pubsub.Listener // of this engine's grants
	free   *pubsub.Listener // of releases by other kinds of lock

	// Guarded by Queue.mu.
	waiters map[*Waiter]struct{}
	freed   bool // the lock may be free, and no waiter could be probed yet
}

// New returns a queue without waiters.
func New(c Config) *Queue {
	q := &Queue{
		Config: c, kick: make(chan struct{}, 1), wakeAt: lease.Forever,
		waiters: make(map[string]*Waiter), subs: make(map[string]*subscriptions),
	}
	q.probes = transport.Rounds[*Waiter]{Conn: c.Proto.Conn, Key: (*Waiter).lockName, Do: q.probe, Kick: q.kick}
	return q
}

// Wake makes Run look for probes that another node may be sent now.
func (q *Queue) Wake() { timing.Signal(q.kick) }

// Add registers a hold that is about to be enqueued, and subscribes to its grants. Remove must
// follow.
func (q *Queue) Add(hold wire.Ref) *Waiter {
	w := &Waiter{
		ref:   hold,
		subs:  q.open(hold.Keys),
		C:     make(chan struct{}, 1),
		index: -1,
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[w.ref.ID] = w
	w.subs.waiters[w] = struct{}{}
	return w
}

// Remove ends the waiting of w.
func (q *Queue) Remove(w *Waiter) {
	q.mu.Lock()
	delete(q.waiters, w.ref.ID)
	delete(w.subs.waiters, w)
	q.unscheduleLocked(w)
	if w.prober {
		q.lockFreedLocked(w.subs)
	}
	q.mu.Unlock()
	q.shut(w.subs, w.ref.Keys.Name)
}

// open returns the subscriptions of a name. shut must follow.
func (q *Queue) open(k *wire.Keys) *subscriptions {
	q.opening.Lock()
	defer q.opening.Unlock()
	s := q.subs[k.Name]
	if s == nil {
		s = &subscriptions{waiters: make(map[*Waiter]struct{})}
		s.grants = q.Broker.SubscribeFunc(k.Prefix+q.Session, func() { q.resubscribed(s) })
		s.free = q.Broker.SubscribeFunc(k.Channel, func() { q.lockFreed(s) })
		q.subs[k.Name] = s
	}
	s.users++
	return s
}

func (q *Queue) shut(s *subscriptions, name string) {
	q.opening.Lock()
	defer q.opening.Unlock()
	if s.users--; s.users == 0 {
		s.grants.Unsubscribe()
		s.free.Unsubscribe()
		delete(q.subs, name)
	}
}

// Subscribed reports whether a grant for w would be heard now. If not, C signals when it would.
func (w *Waiter) Subscribed() bool { return w.subs.grants.Live() }

// Enqueueing records that the request to enqueue w is about to be sent.
func (q *Queue) Enqueueing(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.probed = q.Clock.Now()
}

// Enqueued records that w may be in the queue, and that the lock may become free after ttl.
func (q *Queue) Enqueued(w *Waiter, ttl time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.token == 0 {
		q.scheduleLocked(w, q.after(w, w.probed, ttl))
	}
}

// Asked returns when the last probe was sent that found w waiting.
func (q *Queue) Asked(w *Waiter) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.probed
}

// after returns when to probe a waiter again whose last probe was sent at sent, if the lock may
// become free after ttl from now. Probes are sent at most half a claim apart: the time of
// sending counts for a grant.
func (q *Queue) after(w *Waiter, sent int64, ttl time.Duration) int64 {
	claim := q.Proto.ClaimOf(&w.ref)
	at := sent + int64(timing.Jitter(claim/3))
	if ttl >= 0 && ttl < claim {
		at = min(at, q.Clock.Now()+int64(ttl+time.Millisecond))
	}
	return at
}

// scheduleLocked schedules a probe of w at a time, or now if something happened meanwhile.
func (q *Queue) scheduleLocked(w *Waiter, at int64) {
	if w.probeAgain || w.subs.freed {
		at = 0
	}
	if w.subs.freed {
		w.subs.freed, w.prober = false, true
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

// resubscribed probes all waiters of a name, because the subscription to their grants was
// confirmed or broke. It is called with the broker's mutex held.
func (q *Queue) resubscribed(s *subscriptions) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := range s.waiters {
		timing.Signal(w.C)
		w.probeAgain = true
		q.probeNowLocked(w)
	}
}

// lockFreed probes one waiter, because another kind of lock was released. One is enough: its probe
// grants the lock to the head of the queue. It is called with the broker's mutex held.
func (q *Queue) lockFreed(s *subscriptions) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lockFreedLocked(s)
}

func (q *Queue) lockFreedLocked(s *subscriptions) {
	for w := range s.waiters {
		if w.index >= 0 {
			w.prober = true
			q.probeNowLocked(w)
			return
		}
	}
	s.freed = true // the next waiter that is scheduled is probed at once
}

func (q *Queue) probeNowLocked(w *Waiter) {
	if w.index < 0 {
		return
	}
	w.next = 0
	heap.Fix(&q.heap, w.index)
	if q.wakeAt > 0 {
		timing.Signal(q.kick)
	}
}

func (w *Waiter) lockName() string { return w.ref.Keys.Name }

// Before implements timing.Entry.
func (w *Waiter) Before(other *Waiter) bool { return w.next < other.next }

// SetIndex implements timing.Entry.
func (w *Waiter) SetIndex(i int) { w.index = i }
