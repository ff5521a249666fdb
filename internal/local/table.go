package local

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// A Call is one call that wants a lock of a table. NewCall of a table returns it, and Free takes it
// back.
type Call struct {
	Name   string
	Owner  *Owner // nil: it has none
	Crowd  *Crowd // of a reader that shares a hold with others; nil: it has one of its own
	For    any    // the call, as those know it who wait behind it
	Reads  bool   // it wants the readers' side
	Try    bool   // it does not wait
	Due    bool   // an Unlock of the lock is to end what it gets
	Inside bool   // a reader whose caller reads: it does not wait for writers, who would wait for that caller
	Length int64  // of leases that it takes over; 0: it takes none over
	Keep   int64  // for how long its lease may be kept after its hold; 0: not at all
	Score  int64  // arrival (µs) of its entry in Redis, or the one that it has taken over; 0: none

	C chan struct{} // receives when Next has something new

	// Guarded by the mutex of the name.
	state   callState
	refused bool // a delegate: Redis has answered that the lock is taken
	hold    *Hold
	came    int64 // when it came
	since   int64 // when it began to wait; Never: it has not waited
}

// callState is where a call is.
type callState uint8

const (
	outside callState = iota // not in the table, or out of it
	queued                   // it waits
	asks                     // it is the delegate
	inside                   // it was let in
	turned                   // it does not wait, and another call has the lock
)

// Crowd are readers that share one hold, which counts them.
type Crowd struct {
	hold *Hold // the last one; guarded by the mutex of the name
}

// A Verb says what the caller of a table must do.
type Verb uint8

const (
	Nothing Verb = iota
	Enter        // the call has Step.Hold
	Wait         // until Call.C receives; then call Next, or Left
	Ask          // ask Redis; then call Granted, GrantedRead, or Left. A reader may ask whether it may share Step.Lease
	Refuse       // the lock is taken, and the call does not wait
	Lose         // Step.Lease has run out unnoticed: lose it, and then do the same again
	Release      // release Step.Lease in Redis; then call Released, unless it is a reader's
	Keep         // keep Step.Lease for Hold.Keep
)

// A Step is what the caller of a table must do next.
type Step struct {
	Do    Verb
	Hold  *Hold  // of Enter
	Kept  bool   // of Enter: the lease was kept
	Lease *Lease // of Ask, Lose, Release and Keep
}

// A Table decides for the locks of one family which calls have them. It is safe for concurrent use.
type Table struct {
	window int64        // the hand-off window
	heard  atomic.Int64 // since when messages are heard
	calls  sync.Pool
	seed   maphash.Seed
	shards [shardCount]shard
}

const shardCount = 64 // a power of two; a shard's mutex is held for well under a microsecond

// shard is a part of the names of a table.
type shard struct {
	sync.Mutex                   // protects the following, and all that entries lead to
	entries    map[string]*entry // by name
	spare      sync.Pool         // of entries
}

// entry is the state of one name. It is forgotten when nothing is left of it.
type entry struct {
	name     string
	state    state
	lease    *Lease // of the exclusive side: held, kept, or being released
	hold     *Hold  // the live one, or the one after which the lease is kept
	wanted   bool   // another process wants the lease that is held
	released int64  // when the release began

	read      *Lease             // that readers share; nil: there is none
	readers   map[*Hold]struct{} // the holds on it
	joinUntil int64              // until when more may share it without asking Redis

	delegates [2]*Call   // by side: the call that asks Redis
	queues    [2][]*Call // by side: those that wait
	takenAt   int64      // when the lock was last known to be taken; negative: never
}

// state is the state of the exclusive side.
type state uint8

const (
	free      state = iota // the process has nothing
	asking                 // a delegate asks Redis
	held                   // by a call of the process
	kept                   // by nobody, in Redis
	releasing              // by nobody, and the release is under way
)

const (
	writeSide = 0
	readSide  = 1
)

// NewTable returns a table whose leases go from call to call for that long after Redis has granted
// them, or a call has taken over what was kept.
func NewTable(window int64) *Table {
	t := &Table{window: window, seed: maphash.MakeSeed()}
	t.calls.New = func() any { return &Call{C: make(chan struct{}, 1)} }
	for i := range t.shards {
		t.shards[i].entries = make(map[string]*entry)
	}
	return t
}

// Heard records that the session hears messages since then: what was kept before, and has not been
// renewed since, may have been forced open. [Never] says that it does not hear any.
func (t *Table) Heard(since int64) { t.heard.Store(since) }

// Never is later than every time.
const Never = 1<<63 - 1

// NewCall returns a call that is in no table.
func (t *Table) NewCall() *Call { return t.calls.Get().(*Call) }

// Free takes back a call that has left the table.
func (t *Table) Free(c *Call) {
	select {
	case <-c.C:
	default:
	}
	*c = Call{C: c.C}
	t.calls.Put(c)
}

// signal signals c.
func (c *Call) signal() {
	select {
	case c.C <- struct{}{}:
	default:
	}
}

// at locks the shard of a name, and returns its entry, a new one if it has none.
func (t *Table) at(name string) (*shard, *entry) {
	s := &t.shards[maphash.String(t.seed, name)&(shardCount-1)]
	s.Lock()
	e := s.entries[name]
	if e == nil {
		if e, _ = s.spare.Get().(*entry); e == nil {
			e = new(entry)
		}
		e.name, e.takenAt, e.joinUntil = name, -1, 0
		s.entries[name] = e
	}
	return s, e
}

// leave forgets the name if nothing is left of it, and unlocks the shard.
func (s *shard) leave(e *entry) {
	if e.empty() {
		delete(s.entries, e.name)
		s.spare.Put(e)
	}
	s.Unlock()
}

func (e *entry) empty() bool {
	return e.state == free && e.read == nil && e.delegates == [2]*Call{} && len(e.queues[writeSide])+len(e.queues[readSide]) == 0
}

// Lock begins the call c: it is let in, or told to wait, to ask Redis, or that the lock is taken. A
// kept lease that it cannot take over is released first: the call does that, and waits.
func (t *Table) Lock(c *Call, now int64) Step {
	s, e := t.at(c.Name)
	defer s.leave(e)
	c.state, c.refused, c.came, c.since = outside, false, now, Never
	if c.Reads {
		return e.rlock(c, now)
	}
	return e.lock(c, t.heard.Load(), now)
}

// Next returns what c is to do after its C has received.
func (t *Table) Next(c *Call) Step {
	s, e := t.at(c.Name)
	defer s.leave(e)
	return e.next(c)
}

func (e *entry) next(c *Call) Step {
	switch c.state {
	case inside:
		return Step{Do: Enter, Hold: c.hold}
	case asks:
		return e.ask(c)
	case turned:
		return Step{Do: Refuse}
	}
	return Step{Do: Wait}
}

// Refused records that Redis has answered a delegate that the lock is taken.
func (t *Table) Refused(c *Call, now int64) {
	s, e := t.at(c.Name)
	defer s.leave(e)
	e.refused(c, now)
}

func (e *entry) refused(c *Call, now int64) {
	if c.state != asks {
		return
	}
	c.refused, e.takenAt = true, now
	e.turnTries(sideOf(c.Reads))
}

// turnTries turns away the calls of a side that do not wait for the lock: another call has it, or
// is to have it.
func (e *entry) turnTries(side int) {
	for _, w := range slices.Clone(e.queues[side]) {
		if w.Try {
			e.leave(w)
			w.state = turned
			w.signal()
		}
	}
}

// Granted records that Redis has granted l to the delegate c, and returns its hold.
func (t *Table) Granted(c *Call, l *Lease, now int64) *Hold {
	s, e := t.at(c.Name)
	defer s.leave(e)
	return e.granted(c, l, now)
}

// GrantedRead records that Redis has granted a reader l, or if it is not fresh, has said that more
// may share l, as they do already. Others may share it as well until joinUntil. spare is a lease to
// release: l, if the process has another one by now.
func (t *Table) GrantedRead(c *Call, l *Lease, fresh bool, joinUntil, now int64) (step Step, spare *Lease) {
	s, e := t.at(c.Name)
	defer s.leave(e)
	return e.grantedRead(c, l, fresh, joinUntil, now)
}

// Unlock ends h, after its last call has left it. Its lease goes to the next call if that may be,
// and pass; it is kept if nobody waits, that may be, and keep; otherwise it is to be released.
func (t *Table) Unlock(name string, h *Hold, pass, keep bool, now int64) Step {
	s, e := t.at(name)
	defer s.leave(e)
	if h.Reads {
		return e.runlock(h, now)
	}
	return e.unlock(h, pass, keep, t.window, t.heard.Load(), now)
}

// Released records that the release of l is over, which a step has asked for.
func (t *Table) Released(name string, l *Lease, now int64) {
	s, e := t.at(name)
	defer s.leave(e)
	e.releasedLease(l, now)
}

// Recalled records that another process wants l. If it is kept, it is to be released.
func (t *Table) Recalled(name string, l *Lease, now int64) Step {
	s, e := t.at(name)
	defer s.leave(e)
	return e.recalled(l, now)
}

// Dropped records that l is not to be kept any longer. If it is, it is to be released.
func (t *Table) Dropped(name string, l *Lease, now int64) Step {
	s, e := t.at(name)
	defer s.leave(e)
	return e.dropped(l, now)
}

// Lost records that l is lost, and returns the holds on it, which end with that cause. had reports
// that the process had l: held, kept, or being released.
func (t *Table) Lost(name string, l *Lease, cause error, now int64) (holds []*Hold, had bool) {
	s, e := t.at(name)
	defer s.leave(e)
	return e.lost(l, cause, now)
}

// Ahead is what a call that leaves has waited for.
type Ahead struct {
	Held     bool  // the process has the lock
	Release  int64 // since when the process releases it; 0: it does not
	Delegate any   // Call.For of the call that asks Redis; nil: there is none
	TakenAt  int64 // when the lock was last known to be taken, since the call began to wait; negative: not since then
}

// Left ends the call c, whatever it does. It returns the hold if c was let in meanwhile, which the
// caller must give back.
func (t *Table) Left(c *Call, now int64) *Hold {
	s, e := t.at(c.Name)
	defer s.leave(e)
	return e.left(c, now)
}

// Ahead returns what c waits for.
func (t *Table) Ahead(c *Call) Ahead {
	s, e := t.at(c.Name)
	defer s.leave(e)
	a := Ahead{Held: e.state == held || !c.Reads && e.read != nil, TakenAt: -1}
	if e.state == releasing {
		a.Release = e.released
	}
	if d := e.delegates[sideOf(c.Reads)]; d != nil && d != c {
		a.Delegate = d.For
	}
	if e.takenAt >= c.since {
		a.TakenAt = e.takenAt
	}
	return a
}

// wait has c wait in memory.
func (e *entry) wait(c *Call, now int64) Step {
	c.state, c.since = queued, now
	q := &e.queues[sideOf(c.Reads)]
	*q = append(*q, c)
	if e.hold != nil && e.state == held {
		e.hold.SetWanted()
	}
	return Step{Do: Wait}
}

// leave takes c out of its queue.
func (e *entry) leave(c *Call) {
	q := &e.queues[sideOf(c.Reads)]
	for i, w := range *q {
		if w != c {
			continue
		}
		if i == 0 { // however many wait behind it
			(*q)[0] = nil
			*q = (*q)[1:]
		} else {
			*q = append((*q)[:i:i], (*q)[i+1:]...)
		}
		return
	}
}

// letIn gives c a hold.
func (e *entry) letIn(c *Call, h *Hold) {
	c.state, c.hold = inside, h
}

// delegate makes c ask Redis.
func (e *entry) delegate(c *Call) Step {
	c.state = asks
	e.delegates[sideOf(c.Reads)] = c
	if !c.Reads {
		e.state = asking
	}
	return e.ask(c)
}

// ask returns the step of a delegate.
func (e *entry) ask(c *Call) Step {
	step := Step{Do: Ask}
	if c.Reads && e.state != held {
		step.Lease = e.read
	}
	return step
}

// promote has the next call of each side ask Redis, if the side needs one that does.
func (e *entry) promote() {
	if len(e.queues[writeSide]) > 0 && e.state == free {
		e.promoteFirst(writeSide)
	}
	if len(e.queues[readSide]) > 0 && e.delegates[readSide] == nil {
		e.promoteFirst(readSide)
	}
}

func (e *entry) promoteFirst(side int) {
	c := e.queues[side][0]
	e.leave(c)
	e.delegate(c)
	c.signal()
}

// left ends the call c.
func (e *entry) left(c *Call, now int64) *Hold {
	switch c.state {
	case queued:
		e.leave(c)
	case asks:
		e.delegates[sideOf(c.Reads)] = nil
		if !c.Reads {
			e.state = free
		}
		if c.refused {
			e.takenAt = now
		}
	}
	asked := c.state == asks
	e.promote()
	if d := e.delegates[sideOf(c.Reads)]; asked && d != nil && c.Score > 0 {
		// The entry in Redis is the process's, but counts from d's own arrival: otherwise calls that
		// soon give up would hand on that of the first for ever.
		d.Score = c.Score + max(d.came-c.came, 0)/1000
	}
	h := c.hold
	c.state, c.hold = outside, nil
	return h
}

// lost ends what the process has of l.
func (e *entry) lost(l *Lease, cause error, now int64) (holds []*Hold, had bool) {
	switch l {
	case nil:
	case e.lease:
		had = e.state != releasing
		if e.state == held {
			holds = append(holds, e.hold)
		}
		e.clear(now)
	case e.read:
		had = true
		for h := range e.readers {
			holds = append(holds, h)
		}
		clear(e.readers)
		e.read = nil
		e.noteTaken(now)
	}
	for _, h := range holds {
		h.End(Lost, cause)
	}
	e.promote()
	return holds, had
}

// noteTaken records that the lock was taken until now, if calls wait for it.
func (e *entry) noteTaken(now int64) {
	if len(e.queues[writeSide])+len(e.queues[readSide]) > 0 || e.delegates != [2]*Call{} {
		e.takenAt = now
	}
}

// Held returns the live hold of the exclusive side, nil if there is none.
func (t *Table) Held(name string) *Hold {
	s, e := t.at(name)
	defer s.leave(e)
	if e.state != held {
		return nil
	}
	return e.hold
}

// Holder returns a live hold of either side, nil if there is none.
func (t *Table) Holder(name string) *Hold {
	s, e := t.at(name)
	defer s.leave(e)
	if e.state == held {
		return e.hold
	}
	for h := range e.readers {
		return h
	}
	return nil
}

// Kept returns the lease that is kept, nil if none is.
func (t *Table) Kept(name string) *Lease {
	s, e := t.at(name)
	defer s.leave(e)
	if e.state != kept {
		return nil
	}
	return e.lease
}

// Waiting returns how many calls wait in memory. It is for tests.
func (t *Table) Waiting(name string) int {
	s, e := t.at(name)
	defer s.leave(e)
	return len(e.queues[writeSide]) + len(e.queues[readSide])
}

// Len returns how many names the table knows. It is for tests.
func (t *Table) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		n += len(s.entries)
		s.Unlock()
	}
	return n
}
