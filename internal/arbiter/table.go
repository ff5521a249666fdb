// Package arbiter decides which goroutine of this process may have an exclusive
// lock, and which one asks Redis for it. It does no I/O and starts no goroutine.
//
// For each name at most one goroutine, the asker, talks to Redis, and only while
// the process has no hold. All others queue in order of arrival. Ending a hold
// either passes it to the next waiter or leaves its release to the caller, who
// says when that is done.
package arbiter

import (
	"hash/maphash"
	"sync"
)

const shardCount = 64 // power of two; a shard's mutex is held for well under a microsecond

// Table arbitrates the exclusive locks of one session. It is safe for concurrent
// use. Make it with NewTable.
type Table[L comparable] struct {
	Rules[L]
	seed   maphash.Seed
	shards [shardCount]shard[L]
	pool[L]
}

type shard[L comparable] struct {
	mu      sync.Mutex
	entries map[string]*entry[L] // guarded by mu, and so is everything in it
	spare   []*entry[L]
}

// entry is the state of one name. It exists while somebody holds, asks, waits, or
// has an unlock outstanding. At most one of hold and asker is set.
type entry[L comparable] struct {
	hold    *Hold[L]   // what this process has of Redis
	leaving bool       // hold is over, its release from Redis is under way
	asker   *Waiter[L] // the one goroutine that asks Redis
	queue   queue[L]   // those who wait; in an open table those who ask, too
	record[L]
}

// Rules are what a table has to know of leases. All are called with a shard locked.
type Rules[L comparable] struct {
	// Now is the clock.
	Now func() int64
	// Certain tells whether a lease is known to be ours still.
	Certain func(lease L, now int64) bool
	// Open makes every call ask Redis by itself, not one at a time.
	Open bool
	// Pass tells whether a lease may be passed to another goroutine of this
	// process without asking Redis, and the fencing token to pass it with.
	Pass func(lease L, now int64) (token int64, ok bool)
}

// NewTable returns a table for leases under these rules.
func NewTable[L comparable](r Rules[L]) *Table[L] {
	t := &Table[L]{Rules: r, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].entries = make(map[string]*entry[L])
	}
	return t
}

// Handle returns a new handle for name.
func (t *Table[L]) Handle(name string) Handle[L] {
	i := t.index(name)
	return Handle[L]{name: name, shard: int32(i), mu: &t.shards[i].mu}
}

func (t *Table[L]) index(name string) int {
	return int(maphash.String(t.seed, name) & (shardCount - 1))
}

func (t *Table[L]) shard(name string) *shard[L] { return &t.shards[t.index(name)] }

// Reenter adds one to the hold of owner o, if it has a live one, and reports
// whether it has.
func (t *Table[L]) Reenter(via *Handle[L], o *Owner) bool {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil || !e.heldBy(o) {
		return false
	}
	e.hold.count++
	via.noteLocked(e.hold)
	return true
}

func (e *entry[L]) heldBy(o *Owner) bool {
	return o != nil && e.hold != nil && !e.leaving && e.hold.Owner == o
}

// Verdict is the answer to a request for the lock.
type Verdict uint8

const (
	Entered Verdict = iota // the owner held it already: locked once more
	Ask                    // ask Redis, then call Grant or Abandon
	Queued                 // wait on C, then call Role; or call Quit
	Busy                   // held or asked for here; only if the call does not wait
	Upgrade                // refused: the owner only reads
	Joined                 // granted: a reader shares the read lease of this process
)

// Enter requests the lock. A call that does not wait gets Busy instead of Queued.
func (t *Table[L]) Enter(w *Waiter[L], wait bool) Verdict {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(w.Via.name)
	switch {
	case e.heldBy(w.Owner):
		e.hold.count++
		w.Via.noteLocked(e.hold)
		return Entered
	case t.Open && e.eligible(w) && (wait || e.hold == nil || e.leaving):
		e.queue.push(w, asking)
		return Ask
	case !t.Open && e.hold == nil && e.asker == nil && e.eligible(w):
		// Whoever is queued now is not eligible, or would be the asker.
		e.asker, w.role = w, asking
		return Ask
	case !wait:
		s.dropLocked(w.Via.name, e)
		return Busy
	}
	e.queue.push(w, queued)
	return Queued
}

// Grant records that Redis gave the asker w the lock, and ends its asking. It
// returns the hold and true. In an open table it may also return false: the lease is
// not wanted, because w has got a hold from another call of its owner meanwhile, which
// is returned; or it has ended already, because another call has a newer token: then
// there is no hold, and w goes on asking.
func (t *Table[L]) Grant(w *Waiter[L], lease L, token int64) (*Hold[L], bool) {
	s := &t.shards[w.Via.shard]
	now := t.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.role == granted {
		return w.hold, false
	}
	e := s.entries[w.Via.name]
	if e.hold != nil && e.hold.Token > token {
		return nil, false
	}
	e.stopAskingLocked(w)
	if e.hold != nil && !e.leaving {
		e.hold.End(Lost) // in an open table: if it is w's now, it was lost unnoticed
		e.lost = append(e.lost, e.hold)
	}
	return e.giveLocked(w, lease, token, now), true
}

// giveLocked makes w the holder, and lets in whoever waits under the same owner.
func (e *entry[L]) giveLocked(w *Waiter[L], lease L, token, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Token: token, Since: now, count: 1}
	e.hold, e.leaving = h, false
	w.give(h)
	e.queue.letIn(h)
	return h
}

func (e *entry[L]) stopAskingLocked(w *Waiter[L]) {
	if e.asker == w {
		e.asker, w.role = nil, idle
	} else {
		e.queue.remove(w)
	}
}

// Role is asked after C has fired: the hold that w was granted, or nil if w is
// now the asker.
func (t *Table[L]) Role(w *Waiter[L]) *Hold[L] {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.hold
}

// Quit ends the waiting or asking of w; if it was the asker the turn goes to the
// next waiter. It returns the hold that w was granted meanwhile: one lock of it that
// the caller has to end; else nil.
func (t *Table[L]) Quit(w *Waiter[L]) *Hold[L] {
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

// Lose ends the hold on lease before its unlock. It returns that hold, or nil if
// the lease is not the current one or its last unlock has been called.
func (t *Table[L]) Lose(name string, lease L) *Hold[L] {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil || e.hold == nil || e.hold.Lease != lease {
		return nil
	}
	h := e.hold
	e.hold = nil
	if e.leaving {
		e.leaving, h = false, nil
	} else {
		h.End(Lost)
		e.lost = append(e.lost, h)
	}
	t.promoteLocked(s, name, e)
	return h
}

// Released ends a release that Exit has left to the caller. The turn goes to the
// next waiter, who becomes the asker.
func (t *Table[L]) Released(name string, lease L) {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil || e.hold == nil || e.hold.Lease != lease || !e.leaving {
		return // lost meanwhile
	}
	e.hold, e.leaving = nil, false
	t.promoteLocked(s, name, e)
}

// Lookup returns the live hold of name, nil if there is none.
func (t *Table[L]) Lookup(name string) *Hold[L] {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil && !e.leaving {
		return e.hold
	}
	return nil
}

// HoldOf returns the live hold that o has of the handle's name, nil if it has none.
func (t *Table[L]) HoldOf(via *Handle[L], o *Owner) *Hold[L] {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[via.name]; e != nil && e.heldBy(o) {
		return e.hold
	}
	return nil
}

// Holds returns every live hold.
func (t *Table[L]) Holds() []*Hold[L] {
	var hs []*Hold[L]
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.entries {
			if e.hold != nil && !e.leaving {
				hs = append(hs, e.hold)
			}
		}
		s.mu.Unlock()
	}
	return hs
}

// Waiting reports how many calls are queued for name, the asker not counted, and
// Len how many names the table knows. Both are for tests.
func (t *Table[L]) Waiting(name string) (n int) {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		for w := e.queue.head; w != nil; w = w.next {
			n++
		}
	}
	return n
}

// Len reports how many names the table knows.
func (t *Table[L]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

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

// dropLocked forgets a name with which nothing goes on.
func (s *shard[L]) dropLocked(name string, e *entry[L]) {
	if e.hold != nil || e.asker != nil || e.queue.head != nil || len(e.lost) > 0 {
		return
	}
	delete(s.entries, name)
	if len(s.spare) < 8 {
		s.spare = append(s.spare, e)
	}
}

// promoteLocked makes the first eligible waiter the asker, if one is wanted.
func (t *Table[L]) promoteLocked(s *shard[L], name string, e *entry[L]) {
	if t.Open {
		for w := e.queue.head; w != nil; w = w.next {
			if w.role == queued && e.eligible(w) {
				w.role = asking
				w.C <- struct{}{}
			}
		}
	} else if e.hold == nil && e.asker == nil {
		if w := e.firstLocked(); w != nil {
			e.queue.remove(w)
			e.asker, w.role = w, asking
			w.C <- struct{}{}
		}
	}
	s.dropLocked(name, e)
}

func (e *entry[L]) firstLocked() *Waiter[L] {
	w := e.queue.head
	for w != nil && !e.eligible(w) {
		w = w.next
	}
	return w
}
