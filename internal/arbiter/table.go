package arbiter

import (
	"hash/maphash"
)

const shardCount = 64 // a power of two; a shard's mutex is held for well under a microsecond

// Table arbitrates the exclusive locks of one session. It is safe for concurrent
// use. Make it with NewTable.
type Table[L comparable] struct {
	Rules[L]
	seed   maphash.Seed
	shards [shardCount]shard[L]
	pool[L]
}

// NewTable returns a table for leases under these rules.
func NewTable[L comparable](r Rules[L]) *Table[L] {
	t := &Table[L]{Rules: r, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].entries = make(map[string]*entry[L])
	}
	if t.Expire == nil {
		t.Expire = func(name string, lease L) { t.Lose(name, lease) }
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

// Reenter locks the hold of owner o once more and reports true, if o has one whose lease is
// certain.
func (t *Table[L]) Reenter(via *Handle[L], o *Owner) bool {
	s := &t.shards[via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[via.name]
	if e == nil || !e.heldBy(o) || !t.Certain(e.hold.Lease, t.Now()) {
		return false
	}
	e.hold.count++
	via.noteLocked(e.hold)
	return true
}

// Verdict is the answer to a request for the lock.
type Verdict uint8

const (
	Entered     Verdict = iota // granted: the owner held it already and has locked it once more
	Ask                        // ask Redis, then call Grant or Quit
	Queued                     // wait on C, then call Role; or call Quit
	Busy                       // refused, only to a call that does not wait
	Upgrade                    // refused: the owner only reads
	Joined                     // granted: a reader shares the read lease of this process
	UnlockFirst                // refused: a hold was lost, and its unlock must come first; see admits
)

// lock locks the shard of a name that o is about to enter, and returns the name's entry. If o
// has a hold past its deadline, that is lost first: after a pause of the process nobody else
// may have noticed yet.
func (t *Table[L]) lock(s *shard[L], name string, o *Owner) *entry[L] {
	for {
		s.mu.Lock()
		e := s.entryLocked(name)
		if !e.heldBy(o) || t.Certain(e.hold.Lease, t.Now()) {
			return e
		}
		late := e.hold.Lease
		s.mu.Unlock()
		t.Expire(name, late)
	}
}

// Enter requests the lock. A call that does not wait gets Busy instead of Queued.
func (t *Table[L]) Enter(w *Waiter[L], wait bool) Verdict {
	s := &t.shards[w.Via.shard]
	e := t.lock(s, w.Via.name, w.Owner)
	defer s.mu.Unlock()
	switch {
	case e.heldBy(w.Owner):
		e.hold.count++
		w.Via.noteLocked(e.hold)
		return Entered
	case t.Open && e.eligible(w) && (wait || e.hold == nil || e.releasing):
		e.queue.push(w, contending)
		return Ask
	case !t.Open && e.hold == nil && e.contender == nil && e.eligible(w):
		// Whoever is queued now is not eligible, or would be the contender.
		e.contender, w.role = w, contending
		return Ask
	case e.mustUnlockFirst(w, wait):
		s.dropLocked(w.Via.name, e)
		return UnlockFirst
	case !wait:
		s.dropLocked(w.Via.name, e)
		return Busy
	}
	e.queue.push(w, queued)
	return Queued
}

// Grant records that Redis granted the lock to the contender w. It returns the hold and true.
//
// In an open table it may return false: the caller must release the lease. Either w got a
// hold through another call of its owner meanwhile, which is returned; or another call has a
// newer token, so the lease has ended already: then the hold is nil and w still contends.
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
	e.stopContendingLocked(w)
	if e.hold != nil && !e.releasing {
		e.hold.End(Lost) // in an open table: w has the lock now, so this one was lost unnoticed
		e.lost = append(e.lost, e.hold)
	}
	return e.grantLocked(w, lease, token, now), true
}

// grantLocked makes w the holder, together with all waiters of the same owner.
func (e *entry[L]) grantLocked(w *Waiter[L], lease L, token, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Token: token, Since: now, count: 1}
	e.hold, e.releasing = h, false
	w.grant(h)
	e.queue.admitOwner(h)
	return h
}

func (e *entry[L]) stopContendingLocked(w *Waiter[L]) {
	if e.contender == w {
		e.contender, w.role = nil, idle
	} else {
		e.queue.remove(w)
	}
}

// Role returns, after C has fired, the hold that w was granted, or nil if w is now the
// contender.
func (t *Table[L]) Role(w *Waiter[L]) *Hold[L] {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.hold
}

// Quit ends the wait or contention of w; the next waiter becomes the contender. If w was
// granted a hold meanwhile, Quit returns it, and the caller must give it back with Return.
func (t *Table[L]) Quit(w *Waiter[L]) *Hold[L] {
	s := &t.shards[w.Via.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w.Via.name]
	if w.role == queued || w.role == contending {
		e.stopContendingLocked(w)
		t.promoteLocked(s, w.Via.name, e)
	}
	return w.hold
}

// Lose ends the hold on lease before its unlock. It returns that hold, or nil if the lease is
// not the current one or its last unlock has been called.
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
	if e.releasing {
		e.releasing, h = false, nil
	} else {
		h.End(Lost)
		e.lost = append(e.lost, h)
	}
	t.promoteLocked(s, name, e)
	return h
}

// Released reports the end of a release that Exit left to the caller. The next waiter becomes
// the contender.
func (t *Table[L]) Released(name string, lease L) {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil || e.hold == nil || e.hold.Lease != lease || !e.releasing {
		return // lost meanwhile
	}
	e.hold, e.releasing = nil, false
	t.promoteLocked(s, name, e)
}
