package arbiter

import (
	"cmp"
	"hash/maphash"
	"sync"
)

// Rules tell a table about leases. All functions but Expire and Gone are called with a shard
// locked: they must neither block nor use the table.
type Rules[L comparable] struct {
	// Now is the clock.
	Now func() int64
	// ID returns what the lease is known by to others, which no other lease has. Only Find asks
	// for that of a lease that is not read.
	ID func(lease L) string
	// Certain reports whether a lease is certain to be held still.
	Certain func(lease L, now int64) bool
	// Expire ends the holds of name on a lease that is no longer certain, through Lose. It
	// is called with no shard locked.
	Expire func(name string, lease L)
	// Outlasts reports whether a read lease that is not shared ends after another one.
	Outlasts func(lease, other L) bool
	// Open makes every call ask Redis by itself instead of one per name.
	Open bool
	// Gone is Expire for a lease of an open table: Redis has granted the lock to a later call.
	Gone func(name string, lease L)
	// Pass reports whether a lease may be passed to a waiter of that class without asking
	// Redis, and the fencing token to pass it with. It is not asked for read leases.
	Pass func(lease L, class, now int64) (token int64, ok bool)
	// Keep reports whether the process keeps a lease, for d at most, that nobody uses or waits for
	// any more.
	Keep func(lease L, d, now int64) bool
	// Resume is Pass for a lease that was kept, and is not any more.
	Resume func(lease L, class, now int64) (token int64, ok bool)
}

// Table arbitrates the locks of one kind of one session, each with an exclusive side and, for a
// read-write lock, a read side. Per name a process has at most one exclusive hold in Redis, and
// one call contends for it. A Table is safe for concurrent use. Make it with NewTable.
type Table[L comparable] struct {
	Rules[L]
	waiters sync.Pool
	seed    maphash.Seed
	shards  [shardCount]shard[L]
}

const shardCount = 64 // a power of two; a shard's mutex is held for well under a microsecond

// shard is a part of the names of a table.
type shard[L comparable] struct {
	*Rules[L]
	sync.Mutex                      // protects the following, and all that entries lead to
	entries    map[string]*entry[L] // by name
	spare      sync.Pool            // of entries
}

// entry is the state of one name. It exists while there is a hold, a kept lease, a contender, or a
// waiter. At most one of its first three fields is set.
type entry[L comparable] struct {
	*shard[L]
	name string

	hold      *Hold[L] // the live exclusive hold of this process
	releasing *Hold[L] // the one that has ended and whose release in Redis is under way
	kept      *Hold[L] // the one that has ended and whose lease waits for the next Lock

	contenders [2]*Waiter[L] // by Side: the one call that asks Redis on behalf of all that wait for it
	queues     [2]queue[L]   // by Side: the others
	apart      queue[L]      // calls that ask Redis for themselves: all that ask in an open table, and some readers

	reads     map[*Owner]*Hold[L] // all read holds; nil until there is one
	alone     map[string]*Hold[L] // those of them that have a lease of their own, by its id
	sharing   int                 // how many of them share the read lease
	read      L                   // the shared lease; zero if there is none
	joinUntil int64               // until when readers may join it without asking Redis

	taken   bool  // it was known to be taken
	takenAt int64 // when the lock was last known to be taken, by Redis's answer or by a hold whose end somebody waited for
}

// NewTable returns a table for leases under these rules. If there are readers, the zero L must
// not be a lease.
func NewTable[L comparable](r Rules[L]) *Table[L] {
	t := &Table[L]{Rules: r, seed: maphash.MakeSeed()}
	t.waiters.New = func() any { return &Waiter[L]{C: make(chan struct{}, 1)} }
	for i := range t.shards {
		t.shards[i].Rules = &t.Rules
	}
	return t
}

func (t *Table[L]) shard(name string) *shard[L] {
	return &t.shards[maphash.String(t.seed, name)&(shardCount-1)]
}

// lock locks the shard, and returns the entry of a name, a new one if it has none. The entry's
// unlock must follow.
func (s *shard[L]) lock(name string) *entry[L] {
	s.Lock()
	e := s.entries[name]
	if e != nil {
		return e
	}
	if e, _ = s.spare.Get().(*entry[L]); e == nil {
		e = &entry[L]{shard: s}
	}
	if s.entries == nil { // a table of a Group has few names
		s.entries = make(map[string]*entry[L])
	}
	e.name, s.entries[name] = name, e
	return e
}

// unlock lets those ask that may, after what has happened, forgets the name if nothing is left of
// it, and unlocks the shard.
func (e *entry[L]) unlock() {
	s := e.shard
	e.promote()
	if !e.busy() && e.kept == nil && e.idle(Write) && e.unread() {
		delete(s.entries, e.name)
		s.spare.Put(e)
	}
	s.Unlock()
}

// busy reports whether this process has the exclusive side, or is giving it back.
func (e *entry[L]) busy() bool { return e.hold != nil || e.releasing != nil }

// live returns the live hold of o on a side, nil if it has none.
func (e *entry[L]) live(o *Owner, side Side) *Hold[L] {
	if side == Read {
		return e.reads[o]
	}
	if o != nil && e.hold != nil && e.hold.Owner == o {
		return e.hold
	}
	return nil
}

// Holds reports whether o, unless it is nil or a crowd, has a live hold on a side of l.
func (t *Table[L]) Holds(l *Lock[L], o *Owner) bool {
	if o == nil || !o.enters {
		return false
	}
	e := l.shard.lock(l.name)
	defer e.unlock()
	return e.live(o, Write) != nil || e.live(o, Read) != nil
}

// Lookup returns the live exclusive hold of name, nil if there is none.
func (t *Table[L]) Lookup(name string) *Hold[L] {
	e := t.shard(name).lock(name)
	defer e.unlock()
	return e.hold
}

// Kept returns the lease that is kept for a name, if there is one.
func (t *Table[L]) Kept(name string) (l L, kept bool) {
	e := t.shard(name).lock(name)
	defer e.unlock()
	if e.kept == nil {
		return l, false
	}
	return e.kept.lease, true
}

// Leases returns the leases that live holds of name rest on, and the one that is kept.
func (t *Table[L]) Leases(name string) (ls []L) {
	e := t.shard(name).lock(name)
	defer e.unlock()
	if e.hold != nil {
		ls = append(ls, e.hold.lease)
	}
	if e.kept != nil {
		ls = append(ls, e.kept.lease)
	}
	if e.sharing > 0 {
		ls = append(ls, e.read)
	}
	for _, h := range e.alone {
		ls = append(ls, h.lease)
	}
	return ls
}

// Find returns the lease with that id, if it is among those that Leases returns. It looks at a few,
// however many there are.
func (t *Table[L]) Find(name, id string) (l L, found bool) {
	e := t.shard(name).lock(name)
	defer e.unlock()
	for _, h := range []*Hold[L]{e.hold, e.kept, e.alone[id]} {
		if h != nil && t.ID(h.lease) == id {
			return h.lease, true
		}
	}
	return e.read, e.sharing > 0 && t.ID(e.read) == id
}

// Recall records that another process waits for the lock that lease is for, or for a permit of its
// semaphore. It does Drop if the lease is kept.
func (t *Table[L]) Recall(name string, lease L) (dropped bool) {
	e := t.shard(name).lock(name)
	defer e.unlock()
	if e.hold != nil && (e.hold.lease == lease || e.reads[e.hold.Owner] != nil && e.reads[e.hold.Owner].lease == lease) {
		e.hold.recall()
	}
	if e.Open {
		for _, h := range e.reads {
			h.recall()
		}
	}
	return e.drop(lease)
}

// Lose ends every hold on lease before its unlock, because of cause, and returns them: none if the
// lease is not current or its last unlock has been called. kept reports that it was kept, and is
// not any more: nobody has lost it.
func (t *Table[L]) Lose(name string, lease L, cause error) (lost []*Hold[L], kept bool) {
	e := t.shard(name).lock(name)
	defer e.unlock()
	if kept = e.kept != nil && e.kept.lease == lease; kept {
		e.kept = nil
	}
	return e.lose(lease, cause), kept
}

// lose ends every hold on lease before its unlock, which its owner has still to make, and returns
// them.
func (e *entry[L]) lose(lease L, cause error) (lost []*Hold[L]) {
	if e.hold != nil && e.hold.lease == lease {
		lost = append(lost, e.hold)
		e.hold = nil
	}
	if e.releasing != nil && e.releasing.lease == lease {
		e.releasing = nil
	}
	e.noteTaken()
	if e.sharing > 0 && e.read == lease {
		for _, h := range e.reads {
			if h.lease == lease {
				lost = append(lost, h)
			}
		}
	} else if len(e.alone) > 0 {
		if h := e.alone[e.ID(lease)]; h != nil {
			lost = append(lost, h)
		}
	}
	for _, h := range lost {
		if h.side == Read {
			e.dropReader(h)
		}
	}
	for _, h := range lost {
		h.End(Lost, cause)
		h.Owner.setLost(e.side(h.side), h)
	}
	return lost
}

// noteTaken records that a hold ends for which calls of this process wait.
func (e *entry[L]) noteTaken() {
	if !e.idle(Write) {
		e.taken, e.takenAt = true, e.Now()
	}
}

func (e *entry[L]) side(s Side) lockSide { return lockSide{&e.Mutex, e.name, s} }

// Blocked tells what a queued call waits for.
type Blocked[L comparable] struct {
	Held  bool // this process has the lock, on Lease, or is releasing it
	Lease L

	// What Redis answered last to the contender, who asks on behalf of the queue.
	Refused bool  // the lock is taken
	Err     error // it did not answer, or failed

	// Of a call that was queued in this process: whether the lock was known to be taken since then, and when last.
	Taken   bool
	TakenAt int64
}

// Report records the answer of Redis to the contender w: a refusal if err is nil.
func (t *Table[L]) Report(w *Waiter[L], err error) {
	e := w.Lock.shard.lock(w.Lock.name)
	defer e.unlock()
	if w.refused, w.err = err == nil, err; w.refused {
		e.taken, e.takenAt = true, t.Now()
	}
}

// Blocked returns what the call w waits for.
func (t *Table[L]) Blocked(w *Waiter[L]) (b Blocked[L]) {
	l := w.Lock
	e := l.shard.lock(l.name)
	defer e.unlock()
	if w.queued && e.taken && e.takenAt >= w.since {
		b.Taken, b.TakenAt = true, e.takenAt
	}
	holder := cmp.Or(e.hold, e.releasing)
	if holder == nil && l.side == Write {
		for _, holder = range e.reads {
			break
		}
	}
	if holder != nil {
		b.Held, b.Lease = true, holder.lease
	}
	if c := e.contenders[l.side]; c != nil {
		b.Refused, b.Err = c.refused, c.err
	}
	return b
}

// Waiting returns the number of calls queued for a side of name, without those that ask Redis. It
// is for tests.
func (t *Table[L]) Waiting(name string, side Side) int {
	e := t.shard(name).lock(name)
	defer e.unlock()
	return len(e.queues[side])
}

// Len returns the number of names the table knows. It is for tests.
func (t *Table[L]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		n += len(s.entries)
		s.Unlock()
	}
	return n
}
