package relock

import (
	"container/heap"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	claimMost  = 5 * time.Second  // a waiter that is given a FairMutex must have renewed it by then
	queueValid = 15 * time.Second // a queue that nobody looks at ends after that
)

// room is where this process's waiters of FairMutexes wait for their grants. One
// goroutine, run, looks after all of them, in batches: at least every half claim, when
// the lock may have become free, and when a message may have been missed.
//
// When is a grant certain? Its message may lie in a socket's buffer while the process
// is frozen, so that it arrives proves nothing. But the last look, a script that found
// the waiter not granted yet, was executed after it was sent: so the claim began after
// that, and lasts until then plus its length. That holds because an id is queued once
// and never again: there is no older grant that the message could be of.
type room struct {
	s    *Session
	kick chan struct{} // a look is due earlier than run believes

	opening sync.Mutex       // protects doors; taken before the hub's mutex
	doors   map[string]*door // by name

	mu     sync.Mutex       // protects the following, and what is in seats and doors; taken after the hub's mutex
	seats  map[string]*seat // by hold id
	queue  agenda[*seat]    // those in a queue that no look is under way for, by seat.next
	wakeAt int64            // when run looks next; 0 while it is at it
}

// seat is one waiter.
type seat struct {
	lease *lease // a copy: the call may go on under another id while a look is under way
	door  *door
	C     chan struct{} // has a signal when something may have changed

	// guarded by room.mu
	looked int64 // when the last look that found it waiting was sent
	next   int64 // when to look next
	index  int   // in room.queue; -1: not there
	again  bool  // looks that were sent before now do not count
	scout  bool  // its next look is to find out whether the lock is free

	token int64 // granted: the fencing token
	until int64 // granted: certain until then
	lost  bool  // its place is lost: it has to queue again, under another id
}

// door is one name, for as long as it has seats, and the subscriptions for it.
type door struct {
	users  int       // guarded by room.opening
	grants *listener // of this session's grants
	free   *listener // of releases by other kinds of lock

	// guarded by room.mu
	seats map[*seat]struct{}
	freed bool // the lock may be free, and no seat could be made to look yet
}

func newRoom(s *Session) *room {
	return &room{s: s, kick: make(chan struct{}, 1), seats: make(map[string]*seat), doors: make(map[string]*door), wakeAt: forever}
}

// sit makes a seat for a lease that is going to be queued for.
func (r *room) sit(l *lease) *seat {
	st := &seat{
		lease: &lease{keys: l.keys, kind: l.kind, id: l.id, length: l.length},
		door:  r.open(l.keys),
		C:     make(chan struct{}, 1),
		index: -1,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seats[st.lease.id] = st
	st.door.seats[st] = struct{}{}
	return st
}

// rise ends the waiting at a seat.
func (r *room) rise(st *seat) {
	r.mu.Lock()
	delete(r.seats, st.lease.id)
	delete(st.door.seats, st)
	r.dequeueLocked(st)
	if st.scout {
		r.freedLocked(st.door)
	}
	r.mu.Unlock()
	r.shut(st.door, st.lease.keys.name)
}

func (r *room) open(k *lockKeys) *door {
	r.opening.Lock()
	defer r.opening.Unlock()
	d := r.doors[k.name]
	if d == nil {
		d = &door{seats: make(map[*seat]struct{})}
		d.grants = r.s.hub.watch(k.prefix+r.s.id, func() { r.opened(d) })
		d.free = r.s.hub.watch(k.channel, func() { r.freed(d) })
		r.doors[k.name] = d
	}
	d.users++
	return d
}

func (r *room) shut(d *door, name string) {
	r.opening.Lock()
	defer r.opening.Unlock()
	if d.users--; d.users == 0 {
		d.grants.leave()
		d.free.leave()
		delete(r.doors, name)
	}
}

// hears reports whether a grant for the seat would be heard now. If not, a signal
// follows when it would.
func (st *seat) hears() bool { return st.door.grants.live() }

// enters records that a waiter is about to queue.
func (r *room) enters(st *seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.looked = r.s.clock.now()
}

// queued records that it is in the queue, and that the lock may be free after ttl.
func (r *room) queued(st *seat, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st.token == 0 {
		r.queueLocked(st, r.after(st.looked, ttl))
	}
}

// after returns when to look at a waiter again whose last look was sent at sent, if the
// lock may be free after ttl from now. Looks are sent at most half a claim apart: what
// counts for a grant is when they were sent.
func (r *room) after(sent int64, ttl time.Duration) int64 {
	at := sent + int64(jitter(r.s.proto.claim/3))
	if ttl >= 0 && ttl < r.s.proto.claim {
		at = min(at, r.s.clock.now()+int64(ttl+time.Millisecond))
	}
	return at
}

// queueLocked has a look made for the seat at a time, or now if something has happened
// meanwhile.
func (r *room) queueLocked(st *seat, at int64) {
	if st.again || st.door.freed {
		at = 0
	}
	if st.door.freed {
		st.door.freed, st.scout = false, true
	}
	st.next = at
	heap.Push(&r.queue, st)
	if st.next < r.wakeAt {
		wake(r.kick)
	}
}

func (r *room) dequeueLocked(st *seat) {
	if st.index >= 0 {
		heap.Remove(&r.queue, st.index)
	}
}

// granted handles the message of a grant: "<hold id> <token> <claim>". It runs on the
// connection's reader and must not block. A claim may be longer than the lease, to
// which a look that is under way, or a renewal, may have shortened it. "<hold id> look"
// grants nothing: the lock is free, but for the moment it is another one's turn.
func (r *room) granted(message string) bool {
	id, rest, _ := strings.Cut(message, " ")
	if rest == "look" {
		r.turnOf(id)
		return true
	}
	number, length, _ := strings.Cut(rest, " ")
	token, err1 := strconv.ParseInt(number, 10, 64)
	claim, err2 := strconv.ParseInt(length, 10, 64)
	if err1 != nil || err2 != nil || token <= 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.seats[id]; st != nil && st.token == 0 {
		d := min(time.Duration(claim)*time.Millisecond, st.lease.length)
		r.answerLocked(st, token, st.looked+int64(d-margin(d)))
	}
	return true
}

// turnOf has the waiter of that hold id look.
func (r *room) turnOf(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch st := r.seats[id]; {
	case st == nil || st.token > 0:
	case st.index >= 0:
		r.hurryLocked(st)
	default:
		st.again = true // a look is under way, or it is about to be in the queue
	}
}

func (r *room) answerLocked(st *seat, token, until int64) {
	st.token, st.until, st.scout = token, until, false
	r.dequeueLocked(st)
	wake(st.C)
}

// answer returns what a waiter was told: a token if it was granted, until when that
// is certain, and whether its place is lost.
func (r *room) answer(st *seat) (token, until int64, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return st.token, st.until, st.lost
}

// opened makes all waiters of a door look, because the subscription of their grants
// was confirmed, or has broken. It runs with the hub locked.
func (r *room) opened(d *door) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for st := range d.seats {
		wake(st.C)
		st.again = true
		r.hurryLocked(st)
	}
}

// freed makes a waiter look, because another kind of lock was released. One is enough:
// it gives the lock to the head of the queue. It runs with the hub locked.
func (r *room) freed(d *door) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freedLocked(d)
}

func (r *room) freedLocked(d *door) {
	for st := range d.seats {
		if st.index >= 0 {
			st.scout = true
			r.hurryLocked(st)
			return
		}
	}
	d.freed = true // the next that queues there, or comes back from a look, will look
}

func (r *room) hurryLocked(st *seat) {
	if st.index < 0 {
		return
	}
	st.next = 0
	heap.Fix(&r.queue, st.index)
	if r.wakeAt > 0 {
		wake(r.kick)
	}
}

// run looks after the seats until the session stops.
func (r *room) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if due := r.due(); len(due) > 0 {
			r.ask(due)
		}
		timer.Reset(r.rest())
		select {
		case <-timer.C:
		case <-r.kick:
		case <-r.s.stopping:
			return
		}
	}
}

// due takes those that are due out of the queue, and along with them those due soon.
func (r *room) due() (due []*seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeAt = 0
	now := r.s.clock.now()
	if len(r.queue) == 0 || r.queue[0].next > now {
		return nil
	}
	soon := now + int64(r.s.proto.claim/12)
	for len(r.queue) > 0 && r.queue[0].next <= soon {
		st := heap.Pop(&r.queue).(*seat)
		st.again = false
		due = append(due, st)
	}
	return due
}

// rest returns how long to sleep.
func (r *room) rest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeAt = forever
	if len(r.queue) > 0 {
		r.wakeAt = max(1, r.queue[0].next)
	}
	return min(time.Hour, time.Duration(max(0, r.wakeAt-r.s.clock.now())))
}

// ask sends looks and records their answers.
func (r *room) ask(due []*seat) {
	leases := make([]*lease, len(due))
	for i, st := range due {
		leases[i] = st.lease
	}
	// A Redis that hangs must not keep the next looks waiting for long. A round trip may
	// take as long as looks are apart.
	ctx, stop := r.s.bounded(max(r.s.proto.claim/3, 20*time.Millisecond))
	sent := r.s.clock.now()
	replies, errs := r.s.proto.look(ctx, leases)
	late := ctx.Err() != nil
	stop()

	r.mu.Lock()
	defer r.mu.Unlock()
	for i, st := range due {
		if r.seats[st.lease.id] != st || st.token > 0 {
			continue // it is gone, or its grant has arrived meanwhile
		}
		switch err := errs[i]; {
		case err != nil && (late || transient(err)):
			r.queueLocked(st, r.s.clock.now()+int64(jitter(r.s.proto.claim/30)))
		case err == nil && replies[i] > 0:
			r.answerLocked(st, replies[i], st.lease.certainUntil(sent))
		case err != nil || replies[i] == lostPlace:
			// By asking itself it will learn of an error.
			st.lost = true
			wake(st.C)
			if st.scout {
				st.scout = false
				r.freedLocked(st.door)
			}
		default:
			_, ttl, _ := granted(replies[i], nil)
			st.looked, st.scout = sent, false
			r.queueLocked(st, r.after(sent, ttl))
		}
	}
}

func (st *seat) dueBefore(other *seat) bool { return st.next < other.next }
func (st *seat) placed(i int)               { st.index = i }
