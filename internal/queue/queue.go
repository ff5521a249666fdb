package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/pubsub"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/transport"
	"github.com/relock-go/relock/internal/wire"
)

// A Queue keeps the waiters of a session: the hold ids that wait in Redis for a lock. One
// goroutine, Run, polls all of them in batches, in a cluster with one more goroutine for each
// node that has a round under way. A poll is a script that keeps a queue alive and returns
// whether the entry was granted.
//
// When is a grant valid? Its message may lie in a socket buffer while the process is frozen, so
// that its arrival proves nothing. But the last request that found the waiter not granted was
// executed after it was sent: the grant timeout began later, and so lasts until that time plus its
// length. This holds because an id is queued once only: the message cannot be of an older
// grant.
type Queue struct {
	Config
	polls  *timing.Schedule[*Waiter]
	rounds transport.Rounds[*Waiter] // of polls

	mu      sync.Mutex         // protects polls and the following, and what says so; taken after the broker's mutex
	waiters map[string]*Waiter // by hold id
	theirs  int                // how many of them are first while Redisson has the lock, or its turn
	gap     int64              // when a message for an id may have been missed last
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
	ref wire.Ref      // a copy: the call may go on under another id during a poll

	grants *pubsub.Listener // where pub/sub is sharded; set by Add

	// Guarded by Queue.mu.
	next   timing.Timer[*Waiter] // of the next poll; not pending while one is under way, nor once it is granted
	again  bool                  // something happened while next was not pending: poll at once when it is set
	polled int64                 // when the last request was sent that found it waiting
	err    error                 // why the last poll failed, if it did; C signals when that changes to or from nil
	theirs int64                 // since when it is first while Redisson has the lock, or its turn; 0: it is not
	score  int64                 // of its entry; 0: not known
	grant  Grant
	lost   bool // its entry is gone: queue under another id
}

// New returns a queue without waiters.
func New(c Config) *Queue {
	q := &Queue{Config: c, waiters: make(map[string]*Waiter)}
	q.polls = timing.NewSchedule[*Waiter](c.Clock, &q.mu)
	q.rounds = transport.Rounds[*Waiter]{Conn: c.Proto.Conn, Key: (*Waiter).lockName, Do: q.poll, Kick: q.polls.Kick}
	return q
}

// Wake makes Run look for polls that another node may be sent now.
func (q *Queue) Wake() { timing.Signal(q.polls.Kick) }

// Len returns the number of waiters for the lock with a key. It is for tests.
func (q *Queue) Len(key string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters {
		if w.lockName() == key {
			n++
		}
	}
	return n
}

func (w *Waiter) lockName() string { return w.ref.Keys.Name }

// Add registers a hold that may have an entry in the queue since a request sent at sent, whose reply
// is r. It is polled when the lock may be free: after r.Wait, unless that is negative; and at once if
// a message for it may have been missed since it was sent. Remove must follow.
func (q *Queue) Add(hold wire.Ref, sent int64, r wire.Reply) *Waiter {
	w := &Waiter{ref: hold, C: make(chan struct{}, 1), polled: sent, score: r.Score}
	w.next.For = w
	if q.sharded() {
		w.grants = q.Broker.SubscribeFunc(hold.Keys.Grants(q.Session), func() { q.missed(w) })
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters[hold.ID] = w
	w.again = w.again || q.gap >= sent
	q.scheduleLocked(w, sent, r)
	return w
}

// Remove ends the waiting of w.
func (q *Queue) Remove(w *Waiter) {
	q.mu.Lock()
	delete(q.waiters, w.ref.ID)
	q.endLocked(w)
	q.mu.Unlock()
	if w.grants != nil {
		w.grants.Unsubscribe()
	}
}

// endLocked ends the polls of w.
func (q *Queue) endLocked(w *Waiter) {
	q.polls.Stop(&w.next)
	q.theirsLocked(w, false)
}

// waitsLocked reports whether w was neither removed nor granted.
func (q *Queue) waitsLocked(w *Waiter) bool { return q.waiters[w.ref.ID] == w && !w.grant.Granted }

// sharded reports whether grants come on a channel for each lock.
func (q *Queue) sharded() bool { return q.Proto.PubSub == wire.Sharded }

// Resubscribed polls all waiters, because the subscription to the session's channel was
// confirmed or broke: grants may have been missed.
func (q *Queue) Resubscribed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gap = q.Clock.Now()
	if q.sharded() {
		return
	}
	for _, w := range q.waiters {
		q.advanceLocked(w, 0)
	}
}

// missed polls w soon: it may have missed its grant, or the lock may be free. The broker's mutex
// may be locked.
func (q *Queue) missed(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(w, 0)
}

// advanceLocked polls w at a time, if that is sooner than planned.
func (q *Queue) advanceLocked(w *Waiter, at int64) {
	switch {
	case !w.next.Pending():
		w.again = true // after the poll under way, or as soon as it is added
	case at < w.next.At:
		q.polls.Set(&w.next, at)
	}
}

// ErrSilent: Redis has not answered a poll for a grant timeout, or for silentFrom if that is
// longer.
var ErrSilent = errors.New("no answer from Redis")

const silentFrom = time.Second

// Polled returns when the last request was sent that found w waiting, the score of its entry as far
// as that is known, and why the last poll failed, if it did.
func (q *Queue) Polled(w *Waiter) (at, score int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.polled, w.score, w.err
}
