package arbiter

import (
	"hash/maphash"
	"sync"
)

// RW arbitrates the read-write locks of one session. Per name a process has at most one write
// hold in Redis, and one read lease that any number of its readers share. A new reader joins
// that lease without asking while the last answer of Redis, that no writer waits, is fresh
// enough, and no writer waits here; after that, one reader asks again on behalf of all. One
// reader and one writer contend at a time. A reader whose lease is not to be shared, or that
// is under its owner's write hold, contends separately for a lease of its own.
//
// An owner has at most one read hold. All anonymous readers through one handle that share the
// lease have one together: nothing tells which of them unlocks, and what a handle says of its
// hold must be true for each of them. For those with leases of their own see anonymous.go.
//
// It is safe for concurrent use. Make it with NewRW.
type RW[L comparable] struct {
	Rules[L]
	pool[L]
	seed   maphash.Seed
	shards [shardCount]rwShard[L]
}

// rwShard is a part of the names of an RW.
type rwShard[L comparable] struct {
	mu      sync.Mutex             // protects the following, and all that entries lead to
	entries map[string]*rwEntry[L] // by name
	spare   []*rwEntry[L]          // to be used again
}

// rwEntry is the state of one name. The mutex of its shard guards it.
type rwEntry[L comparable] struct {
	writer         *Hold[L]   // the write hold of this process
	releasing      bool       // writer has ended, its release in Redis is under way
	writeContender *Waiter[L] // the one writer that asks Redis, nil if there is a write hold
	writers        queue[L]

	readers       *Hold[L]            // all read holds
	owners        map[*Owner]*Hold[L] // those with an owner
	sharing       int                 // how many of them share the read lease
	read          L                   // the shared lease; zero if there is none
	joinUntil     int64               // until when readers may join it without asking Redis
	readContender *Waiter[L]          // the one reader that asks Redis on behalf of all
	queued        queue[L]            // readers that wait for the contender
	separate      int                 // readers that contend separately

	record[L]
}

// NewRW returns an arbiter of read-write locks under these rules. It calls Pass for write
// leases only. The zero L must not be a lease.
func NewRW[L comparable](r Rules[L]) *RW[L] {
	rw := &RW[L]{Rules: r, seed: maphash.MakeSeed()}
	for i := range rw.shards {
		rw.shards[i].entries = make(map[string]*rwEntry[L])
	}
	if rw.Expire == nil {
		rw.Expire = func(name string, lease L) { rw.Lose(name, lease) }
	}
	return rw
}

// Handle returns a new handle for one side of name. Each side of a lock value has its own.
func (rw *RW[L]) Handle(name string) Handle[L] {
	i := rw.index(name)
	return Handle[L]{name: name, shard: int32(i), mu: &rw.shards[i].mu}
}

func (rw *RW[L]) index(name string) int {
	return int(maphash.String(rw.seed, name) & (shardCount - 1))
}

// entryLocked returns the entry of a name, a new one if there is none.
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

// dropLocked forgets the name if its entry is empty.
func (s *rwShard[L]) dropLocked(name string, e *rwEntry[L]) {
	if e.writer != nil || e.writeContender != nil || e.writers.head != nil || e.readers != nil ||
		e.readContender != nil || e.queued.head != nil || e.separate > 0 || len(e.lost) > 0 {
		return
	}
	delete(s.entries, name)
	if len(s.spare) < 8 {
		e.joinUntil = 0
		s.spare = append(s.spare, e)
	}
}

// writing reports whether this process has a live write hold.
func (e *rwEntry[L]) writing() bool { return e.writer != nil && !e.releasing }

// writtenBy reports whether o has the write hold.
func (e *rwEntry[L]) writtenBy(o *Owner) bool {
	return o != nil && e.writing() && e.writer.Owner == o
}

// readHoldOf returns the read hold of o, nil if it has none.
func (e *rwEntry[L]) readHoldOf(o *Owner) *Hold[L] {
	if o == nil {
		return nil
	}
	return e.owners[o]
}

// lock locks the shard of a name that o is about to enter, and returns the name's entry and
// the time. It loses late holds of o first; see Table.lock.
func (rw *RW[L]) lock(s *rwShard[L], name string, o *Owner) (e *rwEntry[L], now int64) {
	for {
		now = rw.Now()
		s.mu.Lock()
		e = s.entryLocked(name)
		h := e.readHoldOf(o)
		if e.writtenBy(o) && !rw.Certain(e.writer.Lease, now) {
			h = e.writer
		} else if h == nil || rw.Certain(h.Lease, now) {
			return e, now
		}
		s.mu.Unlock()
		rw.Expire(name, h.Lease)
	}
}

// Enter requests one side of the lock. A call that does not wait gets Busy instead of Queued,
// with one exception: a reader is queued for the answer to a contender that has none yet.
func (rw *RW[L]) Enter(w *Waiter[L], side Side, wait bool) Verdict {
	s := &rw.shards[w.Via.shard]
	e, now := rw.lock(s, w.Via.name, w.Owner)
	defer s.mu.Unlock()
	w.side = side
	var v Verdict
	if side == Read {
		v = rw.enterReaderLocked(e, w, wait, now)
	} else {
		v = e.enterWriterLocked(w, wait)
	}
	s.dropLocked(w.Via.name, e)
	return v
}

func (e *rwEntry[L]) enterWriterLocked(w *Waiter[L], wait bool) Verdict {
	switch {
	case e.writtenBy(w.Owner):
		e.writer.count++
		w.grant(e.writer)
		return Entered
	case e.readHoldOf(w.Owner) != nil:
		return Upgrade
	case e.mustUnlockFirst(w, wait):
		return UnlockFirst
	case !wait && e.readers != nil:
		return Busy
	case e.writer == nil && e.writeContender == nil && e.eligible(w):
		e.writeContender, w.role = w, contending
		return Ask
	case !wait:
		return Busy
	}
	e.writers.push(w, queued)
	return Queued
}

func (rw *RW[L]) enterReaderLocked(e *rwEntry[L], w *Waiter[L], wait bool, now int64) Verdict {
	if h, v := rw.joinLocalLocked(e, w.Via, w.Owner, w.Passable, now); h != nil {
		w.role, w.hold = granted, h
		return v
	}
	own, may := e.writtenBy(w.Owner), e.eligible(w)
	switch {
	case e.mustUnlockFirst(w, wait):
		return UnlockFirst
	case own: // so not anonymous, and eligible
		e.separate++
		w.role, w.separate = contending, true
		return Ask
	case !wait && e.writing():
		return Busy
	case !w.Passable && may, !wait && e.readContender != nil && e.readContender.answer == failure:
		e.separate++
		w.role, w.separate = contending, true
		return Ask
	case e.readContender == nil && may:
		e.readContender, w.role = w, contending
		return Ask
	case !wait && e.readContender.answer == refusal:
		return Busy
	}
	w.oneShot = !wait
	e.queued.push(w, queued)
	return Queued
}

// Join locks the read side for o without asking Redis, if o reads already or may share the
// read lease, and reports whether it did. A nil o is anonymous.
func (rw *RW[L]) Join(via *Handle[L], o *Owner, shares bool) bool {
	s := &rw.shards[via.shard]
	now := rw.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil {
		return false
	}
	h, _ := rw.joinLocalLocked(e, via, o, shares, now)
	return h != nil
}

// joinLocalLocked locks the read side without asking Redis, if it can.
func (rw *RW[L]) joinLocalLocked(e *rwEntry[L], via *Handle[L], o *Owner, shares bool, now int64) (*Hold[L], Verdict) {
	if h := e.readHoldOf(o); h != nil {
		if !rw.Certain(h.Lease, now) {
			return nil, Busy
		}
		h.count++
		via.noteLocked(h)
		return h, Entered
	}
	switch {
	case !shares || e.sharing == 0 || !rw.Certain(e.read, now) || !e.admits(via, o):
	case e.writtenBy(o), now < e.joinUntil && e.writer == nil && e.writeContender == nil && e.writers.head == nil:
		return rw.joinLocked(e, via, o, e.read, now), Joined
	}
	return nil, Busy
}

// joinLocked gives one lock on a read lease to o, or to the anonymous readers through via.
func (rw *RW[L]) joinLocked(e *rwEntry[L], via *Handle[L], o *Owner, lease L, now int64) *Hold[L] {
	h := e.readHoldOf(o)
	if o == nil {
		h = via.anonymousLocked()
	}
	if h == nil || o == nil && h.Lease != lease {
		h = &Hold[L]{Owner: o, Lease: lease, Since: now, side: Read}
		e.pushReaderLocked(h)
		if o == nil {
			via.pushAnonymousLocked(h, rw.Ends)
		}
	}
	h.count++
	via.noteLocked(h)
	e.queued.admitOwner(h)
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
