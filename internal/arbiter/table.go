package arbiter

import (
	"hash/maphash"
	"slices"
)

// Table arbitrates the locks of one kind of one session, each with an exclusive side and, for a
// read-write lock, a read side. Per name a process has at most one exclusive hold in Redis, and
// one call contends for it. For the readers see readers.go. A Table is safe for concurrent use.
// Make it with NewTable.
type Table[L comparable] struct {
	Rules[L]
	pool[L]
	seed   maphash.Seed
	shards [shardCount]shard[L]
}

// NewTable returns a table for leases under these rules. If there are readers, the zero L must
// not be a lease.
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

// Handle returns a new handle for one side of name. Each side of a lock value has its own.
func (t *Table[L]) Handle(name string) Handle[L] {
	i := t.index(name)
	return Handle[L]{name: name, shard: int32(i), guard: &t.shards[i].guard}
}

func (t *Table[L]) index(name string) int {
	return int(maphash.String(t.seed, name) & (shardCount - 1))
}

func (t *Table[L]) shard(name string) *shard[L] { return &t.shards[t.index(name)] }

func (t *Table[L]) of(via *Handle[L]) *shard[L] { return &t.shards[via.shard] }

// Reenter locks the exclusive hold of owner o once more and reports true, if o has one whose
// lease is certain.
func (t *Table[L]) Reenter(via *Handle[L], o *Owner) bool {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entries[via.name]
	if e == nil || !e.heldBy(o) || !t.Certain(e.hold.Lease, t.Now()) {
		return false
	}
	e.hold.count++
	via.noteLocked(e.hold)
	return true
}

// ExitInner counts one unlock of a write hold that o has locked more than once, if there is one.
func (t *Table[L]) ExitInner(via *Handle[L], o *Owner) bool {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	e := s.entries[via.name]
	if e == nil || !e.heldBy(o) || e.hold.count < 2 {
		return false
	}
	e.hold.count--
	return true
}

// Verdict is the answer to a request for the lock.
type Verdict uint8

const (
	Entered     Verdict = iota // granted: the owner held it already and has locked it once more
	Ask                        // ask Redis, then call Grant or Quit
	Queued                     // wait on C, then call Answer; or call Quit
	Busy                       // refused, only to a call that does not wait
	Upgrade                    // refused: the owner only reads
	Joined                     // granted: a reader shares the read lease of this process
	UnlockFirst                // refused: the unlock of a lost hold must come first; see admitsLocked
)

// lock locks the shard of a name that o is about to enter, and returns the name's entry and the
// time. If o has a hold past its deadline, that is lost first: after a pause of the process
// nobody else may have noticed yet. Without an owner there is no such hold, and no need for the time
// to write.
func (t *Table[L]) lock(s *shard[L], name string, o *Owner, side Side) (e *entry[L], now int64) {
	for {
		if o != nil || side == Read {
			now = t.Now()
		}
		s.Lock()
		e = s.entryLocked(name)
		h := e.readHoldOf(o)
		if e.heldBy(o) && !t.Certain(e.hold.Lease, now) {
			h = e.hold
		} else if h == nil || t.Certain(h.Lease, now) {
			return e, now
		}
		s.Unlock()
		t.Expire(name, h.Lease)
	}
}

// Enter requests one side of the lock. A call that does not wait gets Busy instead of Queued,
// with one exception: a reader is queued for the answer to a contender that has none yet.
func (t *Table[L]) Enter(w *Waiter[L], side Side, wait bool) (v Verdict) {
	s := t.of(w.Via)
	e, now := t.lock(s, w.Via.name, w.Owner, side)
	defer s.Unlock()
	w.side = side
	if side == Read {
		v = t.enterReaderLocked(e, w, wait, now)
	} else {
		v = t.enterWriterLocked(e, w, wait)
	}
	s.dropLocked(w.Via.name, e)
	return v
}

func (t *Table[L]) enterWriterLocked(e *entry[L], w *Waiter[L], wait bool) Verdict {
	may := w.eligible()
	switch {
	case e.heldBy(w.Owner):
		e.hold.count++
		w.grant(e.hold)
		return Entered
	case e.readHoldOf(w.Owner) != nil:
		return Upgrade
	case !may && (w.Owner != nil || !wait):
		return UnlockFirst // an anonymous call waits: the unlock is another goroutine's
	case !wait && (e.reading() || t.Open && e.held()):
		return Busy
	case t.Open && may:
		e.queue.push(w, contending)
		return Ask
	case may && e.hold == nil && e.contender == nil:
		// Whoever is queued now is not eligible, or would be the contender.
		e.contender, w.role = w, contending
		return Ask
	case !wait:
		return Busy
	}
	e.queue.push(w, queued)
	return Queued
}

// Grant records that Redis granted the exclusive side to the contender w. It returns the hold and
// true.
//
// In an open table it may return false: the caller must release the lease. Either w got a
// hold through another call of its owner meanwhile, which is returned; or another call has a
// newer token, so the lease has ended already: then the hold is nil and w still contends.
func (t *Table[L]) Grant(w *Waiter[L], lease L, token int64) (*Hold[L], bool) {
	s := t.of(w.Via)
	now := t.Now()
	s.Lock()
	defer s.Unlock()
	if w.role == granted {
		return w.hold, false
	}
	e := s.entries[w.Via.name]
	if e.hold != nil && e.hold.Token > token {
		return nil, false
	}
	e.stopContendingLocked(w)
	if e.held() {
		e.hold.loseLocked(&s.guard, w.Via.name) // in an open table: w has the lock now, so this one was lost unnoticed
	}
	return e.grantLocked(w, lease, token, now), true
}

// grantLocked makes w the holder, together with all waiters of the same owner.
func (e *entry[L]) grantLocked(w *Waiter[L], lease L, token, now int64) *Hold[L] {
	h := &Hold[L]{Owner: w.Owner, Lease: lease, Token: token, Since: now, count: 1}
	e.hold, e.releasing = h, false
	w.grant(h)
	e.queue.admitOwner(h)
	e.separateOwnerLocked(w.Owner)
	e.askAgainLocked(w.Owner)
	return h
}

// Answer returns, after C has fired, the hold that w was granted, or whether it must ask Redis
// now. Neither means that it was refused, which happens only to a reader that does not wait.
func (t *Table[L]) Answer(w *Waiter[L]) (h *Hold[L], ask bool) {
	w.Via.guard.Lock()
	defer w.Via.guard.Unlock()
	return w.hold, w.role == contending
}

// Quit ends the wait or contention of w; the next waiter becomes the contender. If w was
// granted a hold meanwhile, Quit returns it, and the caller must give it back with Return.
func (t *Table[L]) Quit(w *Waiter[L]) *Hold[L] {
	s := t.of(w.Via)
	s.Lock()
	defer s.Unlock()
	if w.role == queued || w.role == contending {
		e := s.entries[w.Via.name]
		e.stopContendingLocked(w)
		t.promoteLocked(e)
		s.dropLocked(w.Via.name, e)
	}
	return w.hold
}

// HoldOf returns the live hold of o on a side of the handle's name, nil if it has none.
func (t *Table[L]) HoldOf(via *Handle[L], o *Owner, side Side) *Hold[L] {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	if e := s.entries[via.name]; e != nil {
		return e.liveLocked(o, side)
	}
	return nil
}

// Newest returns the hold of o on a side of the handle's name that awaits its unlock: the live
// one, else the one that was lost; nil if there is none.
func (t *Table[L]) Newest(via *Handle[L], o *Owner, side Side) *Hold[L] {
	s := t.of(via)
	s.Lock()
	defer s.Unlock()
	if e := s.entries[via.name]; e != nil {
		if h := e.liveLocked(o, side); h != nil {
			return h
		}
	}
	return via.lostOf(o, side)
}

// Lookup returns the live exclusive hold of name, nil if there is none.
func (t *Table[L]) Lookup(name string) *Hold[L] {
	s := t.shard(name)
	s.Lock()
	defer s.Unlock()
	if e := s.entries[name]; e != nil && e.held() {
		return e.hold
	}
	return nil
}

// Leases returns the leases that live holds of name rest on.
func (t *Table[L]) Leases(name string) (ls []L) {
	s := t.shard(name)
	s.Lock()
	defer s.Unlock()
	e := s.entries[name]
	if e == nil {
		return nil
	}
	if e.held() {
		ls = append(ls, e.hold.Lease)
	}
	for h := e.firstReader(); h != nil; h = h.next {
		if !slices.Contains(ls, h.Lease) {
			ls = append(ls, h.Lease)
		}
	}
	return ls
}

// Waiting returns the number of calls queued for a side of name, without contenders. It is for
// tests.
func (t *Table[L]) Waiting(name string, side Side) (n int) {
	s := t.shard(name)
	s.Lock()
	defer s.Unlock()
	var w *Waiter[L]
	switch e := s.entries[name]; {
	case e == nil:
	case side == Write:
		w = e.queue.head
	case e.readers != nil:
		w = e.queued.head
	}
	for ; w != nil; w = w.next {
		n++
	}
	return n
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
