package spec

import (
	"math"
	"slices"
	"strings"
)

// Time is µs on the server's clock. What expires does so at whole milliseconds, as in Redis.
type Time int64

// Millisecond and Second are lengths of time.
const (
	Millisecond Time = 1000
	Second           = 1000 * Millisecond
)

// ms returns the millisecond that t is in.
func (t Time) ms() Time { return t - t%Millisecond }

// An ID is a hold id: its session, a colon, a number, and :write for a writer. Redisson is the
// entry of the queue for all clients of Redisson.
type ID string

// What stands in the place of a hold id.
const (
	Redisson ID = "redisson" // in a queue: Redisson's clients
	Nobody   ID = "-"        // in the fence key: nobody, or a lease that ends by itself
	Readers  ID = "readers"  // in the fence key: readers had the lock
)

// Session returns whose hold id it is.
func (id ID) Session() string {
	session, _, _ := strings.Cut(string(id), ":")
	return session
}

// OfRedisson reports whether the hold is a client of Redisson's, whose UUIDs are of version 4.
func (id ID) OfRedisson() bool { return len(id) > 14 && id[14] == '4' }

// Writes reports whether the hold is a writer's.
func (id ID) Writes() bool { return strings.HasSuffix(string(id), ":write") }

func (id ID) isHold() bool { return strings.Contains(string(id), ":") }

// A Lock is what Redis has of one name.
type Lock struct {
	Holders []Holder // of a Mutex one at most
	Mode    string   // of a RWMutex: read or write
	Limit   int      // of a semaphore, as its last caller said
	Ends    Time     // when the key expires, and all holders with it
	Fence   Fence
	Queue   Queue // of a RWMutex: of writers
	Readers Queue // of a RWMutex
}

// A Holder has the lock, or a permit.
type Holder struct {
	ID    ID
	Rests bool // the lock stays taken for a while after its release, by WithMinHold
	Ends  Time // of a reader its key rwlock_timeout, of a permit its lease
	Slot  int  // of a permit
}

// A Fence is the value of the fence key: the last token, and whose it is. Without a key the token
// and Ends are 0. The key outlives the lease by Terms.Memory.
type Fence struct {
	Token int64
	Of    ID
	Rests Time // of readers: until when the lock stays taken
	Ends  Time
}

// A Queue is in order of the scores.
type Queue struct {
	Entries []Entry
	Ends    Time
}

// An Entry waits; it has no other state. The score is the time of its arrival. The score of
// Redisson's entry says when its next turn is due, or if it is negative, since when it has its turn.
type Entry struct {
	ID    ID
	Grant Time // for so long it gets the lock at first: the grant timeout
	Limit int  // of a semaphore
	Score Time
}

// Terms are the lengths of time that the scripts know.
type Terms struct {
	Memory     Time // how long a fence key outlives a lease
	QueueLives Time // how long a queue does without a poll
	Polled     Time // for how long a poll keeps it alive
	Lull       Time // how long after the last arrival the next one prolongs it
	Turn       Time // of Redisson, at most
	AfterUsed  Time // until Redisson's next turn is due, after one that was used
	AfterOther Time // the same after one that was not; a turn that is due later is due now
}

// OfScripts are the terms in the directory lua, for a Mutex.
var OfScripts = Terms{
	Memory: 60 * Second, QueueLives: 15 * Second, Polled: 15 * Second, Lull: Second,
	Turn: 100 * Millisecond, AfterUsed: 20 * Millisecond, AfterOther: Second,
}

// A Run is one script that runs: an atomic step. Each verb is a method, which changes the lock,
// adds to Out what the script publishes, and returns its reply.
type Run struct {
	*Lock
	*Terms
	Now     Time
	Session string                    // whose script it is: it is there
	Here    func(session string) bool // PUBSUB NUMSUB of the session's channel
	Listens bool                      // PUBSUB NUMSUB of Redisson's channel
	Out     []Message
	Bug     Bug
	Pick    int // which of several holders a script finds that asks for one, at random

	seen   bool  // of a poll: a waiter before was told to wait
	passed []ID  // entries that are passed: to be removed
	later  bool  // Redisson is due later
	before int64 // the last token, as it was
}

// A Message is published by a script. To is a session, or Redisson for its channel.
type Message struct {
	To   string
	Verb string // granted, poll, wanted, lost; of Redisson the text itself
	ID   ID
	Grant
}

// A Grant is what a message says that grants a lock.
type Grant struct {
	Token int64
	Term  Time
	More  bool // others wait behind the winner
	Slot  int
}

// A Reply has three numbers, as the headers of the scripts say.
type Reply struct{ N, X, Y int64 }

// Gone and Tokenless are replies to a poll.
const (
	Gone      = -1 << 52
	Tokenless = -1 << 50
)

// Granted reports whether the reply makes a holder.
func (r Reply) Granted() bool { return r.N > 0 }

// waits is the reply to a caller that waits: the lock may be free after a time, which is 0 where the
// server still has a key whose end has come.
func waits(after Time, score Time, theirs bool) Reply {
	r := Reply{N: -1 - int64(max(after, 0)/Millisecond), X: int64(score)}
	if theirs {
		r.Y = 1
	}
	return r
}

// holds is the reply to a holder, whose lease is negative if others wait.
func holds(token int64, lease Time, more bool, y int64) Reply {
	x := int64(lease / Millisecond)
	if more {
		x = -x
	}
	return Reply{N: token, X: x, Y: y}
}

// Expire removes what has expired at a time. Redis does it when a script touches a key.
func (l *Lock) Expire(now Time) {
	if len(l.Holders) > 0 && now >= l.Ends {
		l.Holders, l.Mode, l.Limit, l.Ends = nil, "", 0, 0
	}
	if now >= l.Fence.Ends {
		l.Fence = Fence{}
	}
	for _, q := range []*Queue{&l.Queue, &l.Readers} {
		if len(q.Entries) == 0 || now >= q.Ends {
			*q = Queue{}
		}
	}
}

// Clone returns a copy that shares nothing.
func (l *Lock) Clone() *Lock {
	c := *l
	c.Holders = slices.Clone(l.Holders)
	c.Queue.Entries = slices.Clone(l.Queue.Entries)
	c.Readers.Entries = slices.Clone(l.Readers.Entries)
	return &c
}

// Free reports whether nobody has the lock.
func (l *Lock) Free() bool { return len(l.Holders) == 0 }

// holder returns a hold id that has the lock, and for how long; empty if it is free.
func (r *Run) holder() (ID, Time) {
	if r.Free() {
		return "", 0
	}
	return r.Holders[r.Pick%len(r.Holders)].ID, r.Ends - r.Now.ms()
}

// Has reports whether a hold id has the lock, and not only keeps it taken.
func (l *Lock) Has(id ID) bool {
	i := l.index(id)
	return i >= 0 && !l.Holders[i].Rests
}

func (l *Lock) index(id ID) int {
	return slices.IndexFunc(l.Holders, func(h Holder) bool { return h.ID == id })
}

// drop removes a holder, and the key with the last one.
func (l *Lock) drop(id ID) bool {
	i := l.index(id)
	if i < 0 {
		return false
	}
	l.Holders = slices.Delete(l.Holders, i, i+1)
	if len(l.Holders) == 0 {
		l.Mode, l.Limit, l.Ends = "", 0, 0
	}
	return true
}

// prolong has the key live for a lease from now on, unless it lives longer.
func (r *Run) prolong(lease Time) { r.Ends = max(r.Ends, r.Now.ms()+lease) }

// Index returns the place of an entry, -1 if it does not queue.
func (q *Queue) Index(id ID) int {
	return slices.IndexFunc(q.Entries, func(e Entry) bool { return e.ID == id })
}

func (q *Queue) remove(id ID) bool {
	i := q.Index(id)
	if i < 0 {
		return false
	}
	q.Entries = slices.Delete(q.Entries, i, i+1)
	return true
}

// put adds an entry, or changes its score.
func (q *Queue) put(e Entry) {
	q.remove(e.ID)
	at := slices.IndexFunc(q.Entries, func(o Entry) bool {
		return o.Score > e.Score || o.Score == e.Score && o.ID > e.ID
	})
	if at < 0 {
		at = len(q.Entries)
	}
	q.Entries = slices.Insert(q.Entries, at, e)
}

// first returns the first entry of relock, nil if there is none.
func (q *Queue) first() *Entry {
	for i := range q.Entries {
		if q.Entries[i].ID != Redisson {
			return &q.Entries[i]
		}
	}
	return nil
}

// issue is issue of token.lua: the next token. Tokens run by the server's clock, 1024 to the
// millisecond. It also returns 2 if the session had the lock before as well, or nobody had it
// lately; else 1.
func (r *Run) issue(of ID, lease Time) (token, again int64) {
	f, block := &r.Fence, int64(r.Now.ms()/Millisecond)*1024
	last := f.Token
	switch {
	case last == 0 && r.Bug == TokenWithoutMemory:
		token = block
	case last == 0: // all data may be lost: further ahead than any token was before
		token = int64(r.Now/Second)*1024000 + int64(math.Floor(float64(r.Now%Second)*1.024)) + 2064
	case last < block || r.Bug == TokenOfTheClock:
		token = block
	case last%1024 == 0:
		token = last + 1024
	default:
		token = last + 1
	}
	if token != block && token%1024 == 0 {
		token++
	}
	again = 1
	if last == 0 || of != Nobody && f.Of.Session() == of.Session() {
		again = 2
	}
	ahead := Time(max((token+1023)/1024-int64(r.Now.ms()/Millisecond), 0)) * Millisecond
	*f = Fence{Token: token, Of: of, Ends: r.Now.ms() + lease + r.Memory + ahead}
	return token, again
}

// forget is forget of core.lua: the fence key names nobody.
func (r *Run) forget() {
	if r.fenceOf() != Nobody && r.Fence.Rests <= r.Now.ms() {
		r.Fence.Of, r.Fence.Rests = Nobody, 0
	}
}

// tokenOf is tokenOf of core.lua: the last token if it was issued to that hold, else 0.
func (r *Run) tokenOf(of ID) int64 {
	if r.fenceOf() != of {
		return 0
	}
	return r.Fence.Token
}

// remember is remember of core.lua: the fence key outlives a lease.
func (r *Run) remember(lease Time) {
	if r.Fence.Ends > 0 {
		r.Fence.Ends = max(r.Fence.Ends, r.Now.ms()+lease+r.Memory)
	}
}

func (r *Run) tell(session, verb string, id ID) {
	r.Out = append(r.Out, Message{To: session, Verb: verb, ID: id})
}

// want is want of core.lua: the holder is told that others wait.
func (r *Run) want(id ID) { r.tell(id.Session(), "wanted", id) }
