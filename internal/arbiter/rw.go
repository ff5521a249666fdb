package arbiter

import (
	"hash/maphash"
	"sync"
)

// RW arbitrates the read-write locks of one session. A process has at most one
// write hold of a name in Redis, and one read lease that any number of its readers
// share. New ones may join without asking until the time up to which Redis said that
// no writer waits, and while no writer waits here either; after that, one of them
// asks again on behalf of all. One reader and one writer may ask at a time; besides,
// a reader whose lease is not to be shared asks for one of its own, and so does one
// under its owner's write hold.
//
// An owner has at most one read hold, and so have all anonymous readers through one
// handle together: who of them unlocks cannot be told, and what one handle says of
// its hold is to be true for each of them.
//
// It is safe for concurrent use. Make it with NewRW.
type RW[L comparable] struct {
	Rules[L]
	pool[L]
	seed   maphash.Seed
	shards [shardCount]rwShard[L]
}

type rwShard[L comparable] struct {
	mu      sync.Mutex
	entries map[string]*rwEntry[L] // guarded by mu, and so is everything in it
	spare   []*rwEntry[L]
}

// rwEntry is the state of one name.
type rwEntry[L comparable] struct {
	writer  *Hold[L]   // the write hold of this process
	leaving bool       // it is over, its release from Redis is under way
	wAsker  *Waiter[L] // the one writer that asks Redis
	writers queue[L]

	readers *Hold[L]            // all read holds
	owners  map[*Owner]*Hold[L] // those of them that have an owner
	sharing int                 // how many of them are on the shared read lease
	read    L                   // the shared read lease; zero if there is none
	ride    int64               // until when readers may join it without asking
	rAsker  *Waiter[L]          // the one reader that asks Redis on behalf of all
	queued  queue[L]            // readers that wait for the asker
	own     int                 // readers asking for themselves

	record[L]
}

// NewRW returns an arbiter of read-write locks under these rules. Pass is asked about
// write leases only. The zero L must not be a lease.
func NewRW[L comparable](r Rules[L]) *RW[L] {
	t := &RW[L]{Rules: r, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].entries = make(map[string]*rwEntry[L])
	}
	return t
}

// Handle returns a new handle for one side of name. The sides of a lock value have
// a handle each.
func (t *RW[L]) Handle(name string) Handle[L] {
	i := t.index(name)
	return Handle[L]{name: name, shard: int32(i), mu: &t.shards[i].mu}
}

func (t *RW[L]) index(name string) int {
	return int(maphash.String(t.seed, name) & (shardCount - 1))
}

func (s *rwShard[L]) entryLocked(name string) *rwEntry[L] {
	e := s.entries[name]
	if e == nil {
		if n := len(s.spare); n > 0 {
			e, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			e = &rwEntry[L]{owners: make(map[*Owner]*Hold[L])}
		}
		s.entries[name] = e
	}
	return e
}

// dropLocked forgets a name with which nothing goes on.
func (s *rwShard[L]) dropLocked(name string, e *rwEntry[L]) {
	if e.writer != nil || e.wAsker != nil || e.writers.head != nil || e.readers != nil ||
		e.rAsker != nil || e.queued.head != nil || e.own > 0 || len(e.lost) > 0 {
		return
	}
	delete(s.entries, name)
	if len(s.spare) < 8 {
		e.ride = 0
		s.spare = append(s.spare, e)
	}
}

// writing reports whether a goroutine of this process writes.
func (e *rwEntry[L]) writing() bool { return e.writer != nil && !e.leaving }

// wroteBy reports whether o has the write hold.
func (e *rwEntry[L]) wroteBy(o *Owner) bool {
	return o != nil && e.writing() && e.writer.Owner == o
}

// readBy returns the read hold of o, nil if it has none.
func (e *rwEntry[L]) readBy(o *Owner) *Hold[L] {
	if o == nil {
		return nil
	}
	return e.owners[o]
}

// Enter requests one side of the lock. A call that does not wait gets Busy instead
// of Queued, unless the answer that it needs is under way: a reader that finds another
// one asking Redis for the first time is queued until that has its answer.
func (t *RW[L]) Enter(w *Waiter[L], side Side, wait bool) Verdict {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(w.Via.name)
	w.side = side
	var v Verdict
	if side == Read {
		v = t.enterReaderLocked(e, w, wait, now)
	} else {
		v = e.enterWriterLocked(w, wait)
	}
	s.dropLocked(w.Via.name, e)
	return v
}

func (e *rwEntry[L]) enterWriterLocked(w *Waiter[L], wait bool) Verdict {
	switch {
	case e.wroteBy(w.Owner):
		e.writer.count++
		w.give(e.writer)
		return Entered
	case e.readBy(w.Owner) != nil:
		return Upgrade
	case !wait && e.readers != nil:
		return Busy
	case e.writer == nil && e.wAsker == nil && e.eligible(w):
		e.wAsker, w.role = w, asking
		return Ask
	case !wait:
		return Busy
	}
	e.writers.push(w, queued)
	return Queued
}

func (t *RW[L]) enterReaderLocked(e *rwEntry[L], w *Waiter[L], wait bool, now int64) Verdict {
	if h, v := t.hereLocked(e, w.Via, w.Owner, w.Passable, now); h != nil {
		w.role, w.hold = granted, h
		return v
	}
	own, may := e.wroteBy(w.Owner), e.eligible(w)
	switch {
	case own: // not anonymous, so it may
		e.own++
		w.role, w.own = asking, true
		return Ask
	case !wait && (e.writing() || !may):
		return Busy
	case !w.Passable && may, !wait && e.rAsker != nil && e.rAsker.told == failure:
		e.own++
		w.role, w.own = asking, true
		return Ask
	case e.rAsker == nil && may:
		e.rAsker, w.role = w, asking
		return Ask
	case !wait && e.rAsker.told == refusal:
		return Busy
	}
	w.once = !wait
	e.queued.push(w, queued)
	return Queued
}

// Join locks the read side for o, nil if it is anonymous, if that takes no asking:
// o reads already, or may share the read lease. It reports whether it has.
func (t *RW[L]) Join(via *Handle[L], o *Owner, shares bool) bool {
	s := &t.shards[via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return false
	}
	h, _ := t.hereLocked(e, via, o, shares, now)
	return h != nil
}

// hereLocked locks the read side once more without asking Redis, if it can.
func (t *RW[L]) hereLocked(e *rwEntry[L], via *Handle[L], o *Owner, shares bool, now int64) (*Hold[L], Verdict) {
	if h := e.readBy(o); h != nil {
		h.count++
		via.noteLocked(h)
		return h, Entered
	}
	switch {
	case !shares || e.sharing == 0 || !t.Certain(e.read, now) || !e.admits(via, o):
	case e.wroteBy(o), now < e.ride && e.writer == nil && e.wAsker == nil && e.writers.head == nil:
		return e.joinLocked(via, o, e.read, now), Joined
	}
	return nil, Busy
}

// joinLocked gives one lock of a read lease to o, or to the anonymous readers through
// via.
func (e *rwEntry[L]) joinLocked(via *Handle[L], o *Owner, lease L, now int64) *Hold[L] {
	h := e.readBy(o)
	if o == nil {
		h = via.anonymousLocked()
	}
	if h == nil || o == nil && h.Lease != lease {
		h = &Hold[L]{Owner: o, Lease: lease, Since: now, side: Read}
		e.pushReaderLocked(h)
		if o == nil {
			via.anon = append(via.anon, h)
		}
	}
	h.count++
	via.noteLocked(h)
	e.queued.letIn(h)
	return h
}

func (e *rwEntry[L]) pushReaderLocked(h *Hold[L]) {
	h.next = e.readers
	if e.readers != nil {
		e.readers.prev = h
	}
	e.readers = h
	if h.Owner != nil {
		e.owners[h.Owner] = h
	}
	if h.Lease == e.read {
		e.sharing++
	}
}

func (e *rwEntry[L]) dropReaderLocked(h *Hold[L]) {
	if h.prev == nil {
		e.readers = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.next, h.prev = nil, nil
	if h.Owner != nil {
		delete(e.owners, h.Owner)
	}
	if h.Lease == e.read {
		e.sharing--
		if e.sharing == 0 {
			var none L
			e.read = none
		}
	}
}
