package relock

import (
	"context"
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
// goroutine, run, looks after all of them: at least every half claim, in batches, and
// at once when a lock may have become free.
//
// When is a grant certain? Its message may lie in a socket's buffer while the process
// is frozen, so that it arrives proves nothing. But the last look, a script that found
// the waiter not granted yet, was executed after it was sent: so the claim began after
// that, and lasts until then plus its length.
type room struct {
	s    *Session
	kick chan struct{} // something is due

	mu    sync.Mutex       // protects the following, and the fields of seat that say so
	seats map[string]*seat // by hold id
	doors map[string]*door // by name
}

// seat is one waiter.
type seat struct {
	lease *lease
	C     chan struct{} // has a signal when the fields below may have changed

	// guarded by room.mu
	looked int64 // when the last look that found it waiting was sent
	next   int64 // when to look next

	token int64 // granted: the fencing token
	until int64 // granted: certain until then
	lost  bool  // its place is lost: it has to queue again, under another id
}

// door are the subscriptions for one name, for as long as it has seats.
type door struct {
	seats  int
	grants *listener // of this session's grants
	free   *listener // of releases by other kinds of lock
}

func newRoom(s *Session) *room {
	return &room{s: s, kick: make(chan struct{}, 1), seats: make(map[string]*seat), doors: make(map[string]*door)}
}

// sit makes a seat for a lease that is going to be queued for.
func (r *room) sit(l *lease) *seat {
	st := &seat{lease: l, C: make(chan struct{}, 1), next: forever}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.doors[l.keys.name]
	if d == nil {
		d = &door{}
		d.grants, _ = r.s.hub.join(l.keys.prefix + r.s.id)
		name := l.keys.name
		d.free = r.s.hub.watch(l.keys.channel, func() { r.freed(name) })
		r.doors[name] = d
	}
	d.seats++
	r.seats[l.id] = st
	return st
}

// rise ends the waiting at a seat.
func (r *room) rise(st *seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := st.lease.keys.name
	delete(r.seats, st.lease.id)
	d := r.doors[name]
	if d.seats--; d.seats == 0 {
		d.grants.leave()
		d.free.leave()
		delete(r.doors, name)
	}
}

// open reports whether the grants for a name would be heard now, and the signal to
// wait for if not.
func (r *room) open(name string) (bool, <-chan struct{}) {
	r.mu.Lock()
	d := r.doors[name]
	r.mu.Unlock()
	return d.grants.live(), d.grants.C
}

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
	st.next = r.after(ttl)
	wake(r.kick)
}

// after returns when to look at a waiter if the lock may be free after ttl.
func (r *room) after(ttl time.Duration) int64 {
	most := jitter(r.s.proto.claim / 3)
	if ttl >= 0 && ttl < most {
		most = ttl + time.Millisecond
	}
	return r.s.clock.now() + int64(most)
}

// granted handles the message of a grant: "<hold id> <token> <claim>". It runs on the
// connection's reader and must not block.
func (r *room) granted(message string) bool {
	f := strings.Fields(message)
	if len(f) != 3 {
		return false // the signal of a confirmation goes to the topic
	}
	token, err1 := strconv.ParseInt(f[1], 10, 64)
	claim, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	d := time.Duration(claim) * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.seats[f[0]]; st != nil {
		st.token, st.until = token, st.looked+int64(d-margin(d))
		wake(st.C)
	}
	return true
}

// answer returns what a waiter was told: a token if it was granted, until when that
// is certain, and whether its place is lost.
func (r *room) answer(st *seat) (token, until int64, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return st.token, st.until, st.lost
}

// freed makes the waiters of a name look, because another kind of lock was released.
// One is enough: it gives the lock to the head of the queue.
func (r *room) freed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.seats {
		if st.lease.keys.name == name && st.next < forever {
			st.next = 0
			wake(r.kick)
			return
		}
	}
}

// run looks after the seats until the session stops.
func (r *room) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(r.look())
		select {
		case <-timer.C:
		case <-r.kick:
		case <-r.s.stopping:
			return
		}
	}
}

// look looks at those that are due, and along with them at those due soon, and
// returns how long to sleep.
func (r *room) look() time.Duration {
	now := r.s.clock.now()
	soon := now + int64(r.s.proto.claim/12)
	var due []*seat
	var leases []*lease
	r.mu.Lock()
	must := false
	for _, st := range r.seats {
		must = must || st.next <= now && st.token == 0
	}
	if must {
		for _, st := range r.seats {
			if st.next <= soon && st.token == 0 {
				due = append(due, st)
				leases = append(leases, st.lease)
			}
		}
	}
	r.mu.Unlock()
	if len(due) > 0 {
		r.ask(due, leases)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	next := forever
	for _, st := range r.seats {
		if st.token == 0 {
			next = min(next, st.next)
		}
	}
	return min(time.Hour, time.Duration(max(0, next-r.s.clock.now())))
}

// ask sends the looks and records their answers.
func (r *room) ask(due []*seat, leases []*lease) {
	ctx, cancel := context.WithCancel(r.s.ioCtx)
	bound := time.AfterFunc(max(r.s.proto.claim/6, 20*time.Millisecond), cancel)
	sent := r.s.clock.now()
	replies, errs := r.s.proto.look(ctx, leases)
	bound.Stop()
	cancel()

	r.mu.Lock()
	defer r.mu.Unlock()
	for i, st := range due {
		switch {
		case st.token > 0 && replies[i] <= 0:
			// its grant arrived meanwhile
		case errs[i] != nil:
			st.next = r.s.clock.now() + int64(jitter(r.s.proto.claim/30))
			if !transient(errs[i]) && ctx.Err() == nil {
				st.lost = true // asking by itself it will learn why
				wake(st.C)
			}
		case replies[i] > 0:
			st.token, st.until = replies[i], st.lease.certainUntil(sent)
			wake(st.C)
		case replies[i] == lostPlace:
			st.lost, st.next = true, forever
			wake(st.C)
		default:
			_, ttl, _ := granted(replies[i], nil)
			st.looked, st.next = sent, r.after(ttl)
		}
	}
}
