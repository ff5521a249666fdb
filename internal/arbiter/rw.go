package arbiter

import (
	"hash/maphash"
	"sync"
)

// RW arbitrates the read-write locks of one session. A process has at most one
// write hold and one read lease of a name in Redis. Any number of its readers share
// the read lease. New ones may join without asking for as long as the last answer of
// Redis said that no writer waits, and no writer waits here either; after that, one
// of them asks again on behalf of all. One reader and one writer may ask at a time;
// besides, a reader whose lease is not to be shared asks for one of its own, and so
// does one under its owner's write hold.
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
}

// rwEntry is the state of one name.
type rwEntry[L comparable] struct {
	writer  *Hold[L]   // the write hold of this process
	leaving bool       // it is over, its release from Redis is under way
	wAsker  *Waiter[L] // the one writer that asks Redis
	writers queue[L]

	readers *Hold[L]   // all read holds
	sharing int        // how many of them are on the shared read lease; 0: there is none
	read    L          // the shared read lease
	ride    int64      // until when readers may join it without asking
	rAsker  *Waiter[L] // the one reader that asks Redis on behalf of all
	queued  queue[L]   // readers that wait for the asker
	own     int        // readers asking for themselves

	record[L]
}

// NewRW returns an arbiter of read-write locks under these rules. Pass and Certain
// are asked about write and read leases alike.
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
	return Handle[L]{name: name, shard: i, mu: &t.shards[i].mu}
}

func (t *RW[L]) index(name string) int {
	return int(maphash.String(t.seed, name) & (shardCount - 1))
}

func (s *rwShard[L]) entryLocked(name string) *rwEntry[L] {
	e := s.entries[name]
	if e == nil {
		e = new(rwEntry[L])
		s.entries[name] = e
	}
	return e
}

func (s *rwShard[L]) dropLocked(name string, e *rwEntry[L]) {
	if e.writer == nil && e.wAsker == nil && e.writers.head == nil && e.readers == nil &&
		e.rAsker == nil && e.queued.head == nil && e.own == 0 && len(e.lost) == 0 {
		delete(s.entries, name)
	}
}

// wroteBy reports whether o has the write hold.
func (e *rwEntry[L]) wroteBy(o *Owner) bool {
	return o != nil && e.writer != nil && !e.leaving && e.writer.Owner == o
}

// readBy returns the read hold of o, nil if it has none.
func (e *rwEntry[L]) readBy(o *Owner) *Hold[L] {
	if o == nil {
		return nil
	}
	for h := e.readers; h != nil; h = h.next {
		if h.Owner == o {
			return h
		}
	}
	return nil
}

// Enter requests one side of the lock. A call that does not wait gets Busy instead
// of Queued.
func (t *RW[L]) Enter(w *Waiter[L], side Side, wait bool) Verdict {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(w.Via.name)
	w.side = side
	v := e.enterWriterLocked
	if side == Read {
		v = e.enterReaderLocked
	}
	verdict := v(w, wait, now)
	s.dropLocked(w.Via.name, e)
	return verdict
}

func (e *rwEntry[L]) enterWriterLocked(w *Waiter[L], wait bool, _ int64) Verdict {
	switch {
	case e.wroteBy(w.Owner):
		e.writer.count++
		w.give(e.writer)
		return Entered
	case e.readBy(w.Owner) != nil:
		return Upgrade
	case e.writer == nil && e.wAsker == nil && e.eligible(w):
		e.wAsker, w.role = w, asking
		return Ask
	case !wait:
		return Busy
	}
	e.writers.push(w, queued)
	return Queued
}

func (e *rwEntry[L]) enterReaderLocked(w *Waiter[L], wait bool, now int64) Verdict {
	own := e.wroteBy(w.Owner)
	if h := e.readBy(w.Owner); h != nil {
		h.count++
		w.give(h)
		return Entered
	}
	switch {
	case w.Passable && e.sharing > 0 && (own || e.rideable(now)) && e.eligible(w):
		e.joinLocked(w, e.read, now).Passed = true
		return Joined
	case !wait && e.writer != nil && !own:
		return Busy
	case own || !w.Passable && e.eligible(w):
		e.own++
		w.role, w.own = asking, true
		return Ask
	case e.rAsker == nil && e.eligible(w):
		e.rAsker, w.role = w, asking
		return Ask
	case !wait:
		return Busy
	}
	e.queued.push(w, queued)
	return Queued
}

// rideable reports whether a reader may join the read lease without asking Redis.
func (e *rwEntry[L]) rideable(now int64) bool {
	return now < e.ride && e.writer == nil && e.wAsker == nil && e.writers.head == nil
}

// joinLocked gives w, who is in no queue, a read hold on lease.
func (e *rwEntry[L]) joinLocked(w *Waiter[L], lease L, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Since: now, side: Read, count: 1, next: e.readers}
	if e.readers != nil {
		e.readers.prev = h
	}
	e.readers = h
	if e.sharing > 0 && lease == e.read {
		e.sharing++
	}
	w.give(h)
	e.queued.letIn(h)
	return h
}

// Standing is what a call that asks Redis has to tell it.
type Standing[L comparable] struct {
	Confirm bool // this process reads: ask whether new readers may join Read
	Read    L
	Writes  bool // this owner has the write hold, on Write
	Write   L
}

// Standing returns the standing of the reader w, who asks.
func (t *RW[L]) Standing(w *Waiter[L]) (st Standing[L]) {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if e.sharing > 0 && w.Passable {
		st.Confirm, st.Read = true, e.read
	}
	if e.wroteBy(w.Owner) {
		st.Writes, st.Write = true, e.writer.Lease
	}
	return st
}

// GrantWrite records that Redis gave the write side to the asker w, and ends its
// asking.
func (t *RW[L]) GrantWrite(w *Waiter[L], lease L, token int64) *Hold[L] {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	e.wAsker = nil
	return e.giveWriterLocked(w, lease, token, now)
}

func (e *rwEntry[L]) giveWriterLocked(w *Waiter[L], lease L, token, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Token: token, Since: now, count: 1}
	e.writer, e.leaving = h, false
	w.give(h)
	e.writers.letIn(h)
	// Readers of this owner need not wait for a reader of another one.
	if w.Owner.hasQueued() {
		for q := e.queued.head; q != nil; {
			next := q.next
			if q.Owner == w.Owner {
				e.queued.remove(q)
				e.own++
				q.role, q.own = asking, true
				q.C <- struct{}{}
			}
			q = next
		}
	}
	return h
}

// GrantRead records that Redis gave the asker w a read lease, which others may share
// if w is Passable, or confirmed the one there is; readers may join it until ride, and
// those that wait are let in. It returns false if the confirmed lease was given up, or
// another one taken, in the meantime: then w has to ask anew, and a lease that is new
// is not wanted.
func (t *RW[L]) GrantRead(w *Waiter[L], lease L, fresh bool, ride int64) (*Hold[L], bool) {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if w.role == granted {
		return w.hold, !fresh
	}
	if !w.Passable {
		e.stopAskingLocked(w)
		h := e.joinLocked(w, lease, now)
		t.promoteLocked(s, w.Via.name, e)
		return h, true
	}
	if fresh == (e.sharing > 0) || !fresh && e.read != lease {
		return nil, false
	}
	e.stopAskingLocked(w)
	e.read, e.ride = lease, ride
	h := e.joinLocked(w, lease, now) // counts it among those that share, unless it is the first
	if fresh {
		e.sharing = 1
	}
	for q := e.queued.head; q != nil && now < ride; {
		next := q.next
		if q.Passable && e.eligible(q) {
			e.queued.remove(q)
			e.joinLocked(q, lease, now).Passed = true
			q.C <- struct{}{}
			next = e.queued.head // joining lets in others of the same owner
		}
		q = next
	}
	t.promoteLocked(s, w.Via.name, e)
	return h, true
}

func (e *rwEntry[L]) stopAskingLocked(w *Waiter[L]) {
	switch {
	case w == e.wAsker:
		e.wAsker = nil
	case w == e.rAsker:
		e.rAsker = nil
	case w.own:
		e.own--
		w.own = false
	case w.role == queued && w.side == Read:
		e.queued.remove(w)
	case w.role == queued:
		e.writers.remove(w)
	}
	w.role = idle
}

// Role is asked after C has fired: the hold that w was granted, or nil if w is to
// ask now.
func (t *RW[L]) Role(w *Waiter[L]) *Hold[L] {
	w.Via.mu.Lock()
	defer w.Via.mu.Unlock()
	return w.hold
}

// Quit ends the waiting or asking of w; the turn goes to the next. It returns the
// hold that w was granted meanwhile: one lock of it that the caller has to end.
func (t *RW[L]) Quit(w *Waiter[L]) *Hold[L] {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if w.role == queued || w.role == asking {
		e.stopAskingLocked(w)
		t.promoteLocked(s, w.Via.name, e)
	}
	return w.hold
}

// promoteLocked makes the first waiting writer and the first waiting reader ask
// Redis, where none does.
func (t *RW[L]) promoteLocked(s *rwShard[L], name string, e *rwEntry[L]) {
	if e.writer == nil && e.wAsker == nil {
		if w := e.first(&e.writers); w != nil {
			e.writers.remove(w)
			e.wAsker, w.role = w, asking
			w.C <- struct{}{}
		}
	}
	if e.rAsker == nil {
		if w := e.first(&e.queued); w != nil {
			e.queued.remove(w)
			e.rAsker, w.role = w, asking
			w.C <- struct{}{}
		}
	}
	s.dropLocked(name, e)
}

func (e *rwEntry[L]) first(q *queue[L]) *Waiter[L] {
	w := q.head
	for w != nil && !e.eligible(w) {
		w = w.next
	}
	return w
}
