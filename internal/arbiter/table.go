package arbiter

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Rules tell a table about leases. All functions but Expire are called with a shard locked:
// they must neither block nor use the table.
type Rules[L comparable] struct {
	// Now is the clock.
	Now func() int64
	// Certain reports whether a lease is certain to be held still.
	Certain func(lease L, now int64) bool
	// Expire ends the holds of name on a lease that is no longer certain, through Lose. It
	// is called with no shard locked.
	Expire func(name string, lease L)
	// Outlasts reports whether a read lease that is not shared ends after another one.
	Outlasts func(lease, other L) bool
	// Open makes every call ask Redis by itself instead of one per name.
	Open bool
	// Pass reports whether a lease may be passed to a waiter of that class without asking
	// Redis, and the fencing token to pass it with. It is not asked for read leases.
	Pass func(lease L, class, now int64) (token int64, ok bool)
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
	sync.Mutex                      // protects the following, and all that entries lead to
	entries    map[string]*entry[L] // by name
	spare      []*entry[L]          // to be used again
}

// entry is the state of one name. It exists while there is a hold, a contender, or a waiter. At
// most one of hold and contender is set.
type entry[L comparable] struct {
	hold        *Hold[L]   // the exclusive hold of this process
	releasing   bool       // hold has ended, its release in Redis is under way
	contender   *Waiter[L] // the one call that asks Redis for an exclusive hold
	queue       queue[L]   // waiters for one; in an open table the contenders too
	*readers[L]            // the read side; nil until the first call of a reader
}

// NewTable returns a table for leases under these rules. If there are readers, the zero L must
// not be a lease.
func NewTable[L comparable](r Rules[L]) *Table[L] {
	t := &Table[L]{Rules: r, seed: maphash.MakeSeed()}
	t.waiters.New = func() any { return &Waiter[L]{C: make(chan struct{}, 1)} }
	for i := range t.shards {
		t.shards[i].entries = make(map[string]*entry[L])
	}
	return t
}

func (t *Table[L]) index(name string) int {
	return int(maphash.String(t.seed, name) & (shardCount - 1))
}

func (t *Table[L]) shard(name string) *shard[L] { return &t.shards[t.index(name)] }

func (t *Table[L]) of(via *Handle[L]) *shard[L] { return &t.shards[via.shard] }

// held reports whether this process has a live exclusive hold.
func (e *entry[L]) held() bool { return e.hold != nil && !e.releasing }

// heldBy reports whether o has the exclusive hold.
func (e *entry[L]) heldBy(o *Owner) bool { return e.held() && e.hold.Owner == o }

// liveLocked returns the live hold of o on a side, nil if it has none.
func (e *entry[L]) liveLocked(o *Owner, side Side) *Hold[L] {
	switch {
	case side == Read:
		return e.readHoldOf(o)
	case e.heldBy(o):
		return e.hold
	}
	return nil
}

// entryLocked returns the entry of a name, a new one if there is none. dropLocked must follow.
func (s *shard[L]) entryLocked(name string) *entry[L] {
	e := s.entries[name]
	if e == nil {
		if n := len(s.spare); n > 0 {
			e, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			e = new(entry[L])
		}
		s.entries[name] = e
	}
	return e
}

// dropLocked forgets the name if its entry is empty.
func (s *shard[L]) dropLocked(name string, e *entry[L]) {
	if e.hold != nil || e.contender != nil || e.queue.head != nil || !e.unread() {
		return
	}
	delete(s.entries, name)
	if len(s.spare) < 8 {
		s.spare = append(s.spare, e)
	}
}

// find returns what of returns for the entry of a name, zero if the name has none.
func find[T any, L comparable](s *shard[L], name string, of func(e *entry[L]) T) (found T) {
	s.Lock()
	defer s.Unlock()
	if e := s.entries[name]; e != nil {
		found = of(e)
	}
	return found
}

// HoldOf returns the live hold of o on the handle's side of the lock, nil if it has none.
func (t *Table[L]) HoldOf(via *Handle[L], o *Owner) *Hold[L] {
	return find(t.of(via), via.name, func(e *entry[L]) *Hold[L] { return e.liveLocked(o, via.side) })
}

// Newest returns the hold of o on the handle's side that awaits its unlock: the live one, else the
// one that was lost; nil if there is none.
func (t *Table[L]) Newest(via *Handle[L], o *Owner) *Hold[L] {
	if h := t.HoldOf(via, o); h != nil {
		return h
	}
	return via.lostOf(o)
}

// Lookup returns the live exclusive hold of name, nil if there is none.
func (t *Table[L]) Lookup(name string) *Hold[L] {
	return find(t.shard(name), name, func(e *entry[L]) *Hold[L] {
		if !e.held() {
			return nil
		}
		return e.hold
	})
}

// Leases returns the leases that live holds of name rest on.
func (t *Table[L]) Leases(name string) []L {
	return find(t.shard(name), name, func(e *entry[L]) (ls []L) {
		if e.held() {
			ls = append(ls, e.hold.lease)
		}
		for h := e.firstReader(); h != nil; h = h.next {
			if !slices.Contains(ls, h.lease) {
				ls = append(ls, h.lease)
			}
		}
		return ls
	})
}

// Lose ends every hold on lease before its unlock, because of cause, and returns them: none if the
// lease is not current or its last unlock has been called.
func (t *Table[L]) Lose(name string, lease L, cause error) []*Hold[L] {
	s := t.shard(name)
	return find(s, name, func(e *entry[L]) []*Hold[L] {
		lost := e.loseLocked(&s.Mutex, name, lease, cause)
		t.promoteLocked(e)
		s.dropLocked(name, e)
		return lost
	})
}

// loseLocked ends every hold on lease before its unlock, and returns them.
func (e *entry[L]) loseLocked(g *sync.Mutex, name string, lease L, cause error) (lost []*Hold[L]) {
	if h := e.hold; h != nil && h.lease == lease {
		if !e.releasing {
			h.loseLocked(g, name, cause)
			lost = append(lost, h)
		}
		e.hold, e.releasing = nil, false
	}
	for h := e.firstReader(); h != nil; {
		next := h.next
		if h.lease == lease {
			e.dropReaderLocked(h)
			h.loseLocked(g, name, cause)
			lost = append(lost, h)
		}
		h = next
	}
	return lost
}

// loseLocked ends a hold before its unlock, which its owner has still to make.
func (h *Hold[L]) loseLocked(g *sync.Mutex, name string, cause error) {
	h.End(Lost, cause)
	h.Owner.addLost(lost{g, name, h.side, h})
}

// Blocked tells what a queued call waits for.
type Blocked[L comparable] struct {
	Held  bool // this process has the lock, on Lease, or is releasing it
	Lease L

	// What Redis answered last to the contender, who asks on behalf of the queue.
	Refused bool  // the lock is taken
	Err     error // it did not answer, or failed
}

// Report records the answer of Redis to the contender w: a refusal if err is nil.
func (t *Table[L]) Report(w *Waiter[L], err error) {
	w.Via.guard.Lock()
	defer w.Via.guard.Unlock()
	w.refused, w.err = err == nil, err
}

// Blocked returns what a call through via waits for.
func (t *Table[L]) Blocked(via *Handle[L]) Blocked[L] {
	return find(t.of(via), via.name, func(e *entry[L]) (b Blocked[L]) {
		contender, holder := e.contender, e.hold
		if via.side == Read {
			contender = e.readContenderOf()
		} else if holder == nil {
			holder = e.firstReader()
		}
		if holder != nil {
			b.Held, b.Lease = true, holder.lease
		}
		if contender != nil {
			b.Refused, b.Err = contender.refused, contender.err
		}
		return b
	})
}

// Waiting returns the number of calls queued for a side of name, without contenders. It is for
// tests.
func (t *Table[L]) Waiting(name string, side Side) int {
	return find(t.shard(name), name, func(e *entry[L]) (n int) {
		w := e.queue.head
		if side == Read {
			w = e.queuedReader()
		}
		for ; w != nil; w = w.next {
			n++
		}
		return n
	})
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
