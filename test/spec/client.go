package spec

import "slices"

// A Stage is where a call is. Until it is held they are those of internal/acquire/request.go.
type Stage uint8

// The stages of a call.
const (
	Idle       Stage = iota // it may acquire
	Asking                  // an acquire script is under way, under a new hold id
	Queued                  // the hold id waits in Redis
	Confirming              // it was granted too late to be sure: Redis is asked to say so
	Held                    // the lease is granted; it is valid until Deadline
	Kept                    // the process keeps the lease though nobody uses it (WithKeep)
	Releasing               // a release is under way
	Over                    // it acquires nothing any more
)

// A Verb is a script that a client sends.
type Verb uint8

// The verbs of a call.
const (
	None Verb = iota
	Acquire
	Confirm // acquire, which does not queue
	Poll
	Renew
	Release
)

// A Kind is a type of lock, or a side of one.
type Kind uint8

// The kinds of a call.
const (
	Plain Kind = iota // Mutex or FairMutex
	Writer
	Reader
	Permit
)

// A Request is a script under way. It is executed at any time after it was sent, and its reply is
// read at any time after that.
type Request struct {
	Verb     Verb
	Sent     Time
	Score    Time // of Acquire: that of the entry before
	Executed bool
	Reply    Reply
}

// A Call acquires a lock and releases it, some times in a row: internal/acquire.
type Call struct {
	Session  int
	Kind     Kind
	Keeps    bool // WithKeep
	Ends     bool // WithFixedLease
	Stage    Stage
	Left     int // how often it acquires yet
	N        int // which of its hold ids it has
	Begun    int // the last N that became a hold, plus 1
	Score    Time
	Request  Request
	Polled   Time // when the last request was sent that found it queued
	Polls    bool // a poll is due
	Deadline Time
	Grant    bool // it has the lock for the grant timeout only: it must renew at once
	Fresh    bool // it was renewed in this step of time
	Again    bool // it is worth keeping
	Wanted   bool // others wait
	Doubt    bool // a request that got no reply may still be executed
	Token    int64
	Slot     int  // of a permit
	Block    bool // the tokens behind it, up to the next 1024, are its too
	Waits    int  // how long it has waited for a lock that nobody validly holds
}

// A Session is one of a process: internal/session.
type Session struct {
	Frozen, Dead bool
	Subscribed   bool // as the server sees it
	Inbox        []Message
	Cleanups     []Cleanup
}

// A Cleanup is what the session releases in the background: internal/lease/cleanup.go. Before
// Doubt is over a release that finds nothing proves nothing.
type Cleanup struct {
	ID    ID
	Doubt Time
	Tried bool // in this step of time
}

// A Stray is a request whose caller has given up on it. It is executed some time within a lease, or
// never.
type Stray struct {
	Verb  Verb
	Call  int
	ID    ID
	Score Time
	Until Time
}

// Valid reports whether a call is sure of the lock.
func (w *World) Valid(c *Call) bool {
	return c.Stage == Held && w.Now < c.Deadline && !w.Sessions[c.Session].Dead
}

func (w *World) runs(session int) bool {
	s := &w.Sessions[session]
	return !s.Frozen && !s.Dead
}

// send sends a script.
func (w *World) send(c *Call, v Verb) {
	c.Request = Request{Verb: v, Sent: w.Now}
	if v == Acquire {
		c.Request.Score = c.Score
	}
}

// ask is request of request.go: it asks under a new hold id, unless what the old one may have is
// given back first.
func (w *World) ask(c *Call) {
	c.Stage, c.Doubt, c.Polls = Asking, false, false
	w.send(c, Acquire)
}

// askAgain is giveUp of request.go, and then ask.
func (w *World) askAgain(c *Call) {
	w.giveUp(c)
	if c.N++; c.N == maxIDs {
		w.cut = true // this world is too small: it is left at that
		c.N--
	}
	w.ask(c)
}

// giveUp is giveUp of request.go: what the call may have in Redis is released in the background.
func (w *World) giveUp(c *Call) {
	if w.Bug == CancelledKeepsGrant {
		return
	}
	t := Cleanup{ID: w.id(c)}
	if c.Doubt {
		t.Doubt = w.Now + w.Lease
	}
	w.cleanUp(c.Session, t)
}

func (w *World) cleanUp(session int, t Cleanup) {
	s := &w.Sessions[session]
	if !slices.ContainsFunc(s.Cleanups, func(o Cleanup) bool { return o.ID == t.ID }) {
		s.Cleanups = append(s.Cleanups, t)
	}
}

// begin begins a hold.
func (w *World) begin(c *Call, deadline Time, token int64) {
	c.Stage, c.Deadline, c.Token, c.Waits = Held, deadline, token, 0
	c.Request, c.Polls, c.Block = Request{}, false, token%1024 == 0
	if c.Begun == c.N+1 {
		w.broken("a grant is taken at most once: %s begins twice", w.id(c))
	}
	c.Begun, w.Last = c.N+1, w.id(c)
	w.begun(c)
}

// begun checks a hold that begins, also one that takes a kept lease over.
func (w *World) begun(c *Call) {
	if !w.Valid(c) || w.Lossy {
		return
	}
	w.checkOverlap()
	if c.Kind == Reader {
		return // it has no token
	}
	if c.Token <= w.Best && c.Kind != Permit { // of permits it may be a renewed one's
		w.broken("tokens grow: that of %s does not", w.id(c))
	}
	w.Best = max(w.Best, c.Token)
}

// granted is accept of wait.go: a grant is valid from the time of a request on. One that is too
// late is confirmed by a round trip.
func (w *World) granted(c *Call, since, term Time, token int64) {
	if w.Bug == GrantFromMessage {
		since = w.Now
	}
	if w.Now >= since+term && w.Bug != LateGrantAccepted {
		c.Stage = Confirming
		w.send(c, Confirm)
		return
	}
	if w.Bug == LateGrantAccepted {
		since = w.Now
	}
	c.Grant = true
	w.begin(c, since+term, token)
}

// heard is heard of internal/session/messages.go, and Heard of internal/queue/grant.go.
func (w *World) heard(session int, m Message) {
	var c *Call
	for i := range w.Calls {
		if o := &w.Calls[i]; o.Session == session && w.id(o) == m.ID {
			c = o
		}
	}
	known := c != nil && c.Stage != Idle && c.Stage != Over
	waits := known && c.Stage == Queued
	switch {
	case m.Verb == "granted" && waits:
		c.Wanted = c.Wanted || m.More
		c.slot(m.Slot)
		w.granted(c, c.Polled, m.Term, m.Token)
	case m.Verb == "granted" && known && c.Stage == Asking, m.Verb == "poll" && known:
		c.Polls = true // it has overtaken the reply to the request that queues the hold id
	case m.Verb == "granted" && known && c.Stage == Held && w.Bug == GrantTakenTwice:
		w.granted(c, c.Polled, m.Term, m.Token)
	case m.Verb == "granted" && !known:
		w.cleanUp(session, Cleanup{ID: m.ID}) // releaseUnknown
	case m.Verb == "wanted" && known:
		c.Wanted = true
		if c.Stage == Kept && w.Bug != RecallIgnored {
			w.release(c)
		}
	case m.Verb == "lost" && known && (c.Stage == Held || c.Stage == Kept):
		w.lose(c)
	}
}

// slot notes the slot of a permit.
func (c *Call) slot(n int) {
	if c.Kind == Permit {
		c.Slot = n
	}
}

// replied is what a call does with a reply.
func (w *World) replied(c *Call, q Request) {
	c.Request = Request{}
	term := Time(max(q.Reply.X, -q.Reply.X)) * Millisecond
	switch q.Verb {
	case Acquire, Confirm:
		switch {
		case q.Reply.Granted() && w.Now < q.Sent+term: // send of request.go
			c.Grant, c.Fresh = false, true
			c.Wanted, c.Again = c.Wanted || q.Reply.X < 0, q.Reply.Y == 2
			c.slot(int(q.Reply.Y))
			w.begin(c, q.Sent+term, q.Reply.N)
		case q.Reply.Granted(): // the reply came too late: it is sent again, or asked under a new id
			c.Doubt, c.Stage = true, Confirming
			w.send(c, Confirm)
		case q.Verb == Acquire:
			c.Stage, c.Score, c.Polled = Queued, Time(q.Reply.X), q.Sent
		default: // confirm of wait.go: the grant has expired
			w.askAgain(c)
		}
	case Poll: // answeredLocked of internal/queue/poll.go
		switch {
		case q.Reply.Granted():
			c.Wanted = c.Wanted || q.Reply.X < 0
			c.slot(int(q.Reply.Y))
			w.granted(c, q.Sent, term, q.Reply.N)
		case q.Reply.N == Gone:
			w.askAgain(c)
		default:
			c.Polled, c.Score = q.Sent, Time(q.Reply.X)
		}
	case Renew: // internal/lease/renew.go
		if q.Reply.N == 0 {
			w.lose(c)
			return
		}
		since := q.Sent
		if w.Bug == RenewalFromReply {
			since = w.Now
		}
		c.Deadline, c.Grant, c.Fresh = since+w.Lease, false, true
	case Release:
		w.over(c)
	}
}

// unlock is Unlock, with what internal/local/writer.go says: the lease is kept, or released.
func (w *World) unlock(c *Call) {
	keeps := c.Keeps && c.Again && !c.Wanted && w.Sessions[c.Session].Subscribed
	w.abandon(c)
	if keeps {
		c.Stage = Kept
		return
	}
	w.release(c)
}

// release releases a lease; its renewals end first.
func (w *World) release(c *Call) {
	w.abandon(c)
	c.Stage = Releasing
	w.send(c, Release)
}

// takeOver is takeOver of internal/local/lease.go: the next call takes a kept lease over, with the
// next token, if half of it is left. Else it is released first.
func (w *World) takeOver(c *Call) {
	if c.Deadline-w.Now < w.Lease/2 || !w.Sessions[c.Session].Subscribed || !c.Block {
		w.release(c)
		return
	}
	c.Stage, c.Left, c.Waits = Held, c.Left-1, 0
	c.Token++
	w.begun(c)
}

// lose is the end of a hold at its deadline, or since it is gone: expired of
// internal/lease/watchdog.go. What may be left in Redis is released in the background.
func (w *World) lose(c *Call) {
	w.abandon(c)
	w.cleanUp(c.Session, Cleanup{ID: w.id(c)})
	w.over(c)
}

// over ends an acquisition.
func (w *World) over(c *Call) {
	*c = Call{Session: c.Session, Kind: c.Kind, Keeps: c.Keeps, Ends: c.Ends, Left: c.Left - 1, N: c.N + 1}
	if c.Left <= 0 || c.N >= maxIDs {
		c.Stage, c.Left, c.N, c.Begun = Over, 0, 0, 0
	}
}

// cancel is the end of a context: the call gives up.
func (w *World) cancel(c *Call) {
	c.Doubt = c.Doubt || c.Request.Verb != None
	w.abandon(c)
	w.giveUp(c)
	w.over(c)
}

// abandon leaves a request to itself.
func (w *World) abandon(c *Call) {
	if q := c.Request; q.Verb != None && !q.Executed {
		w.stray(c, q)
	}
	c.Request = Request{}
}

func (w *World) stray(c *Call, q Request) {
	if i := slices.Index(w.calls(), c); i >= 0 {
		w.Strays = append(w.Strays, Stray{
			Verb: q.Verb, Call: i, ID: w.id(c), Score: q.Score, Until: q.Sent + w.Lease,
		})
	}
}

// calls returns pointers to the calls.
func (w *World) calls() []*Call {
	all := make([]*Call, len(w.Calls))
	for i := range w.Calls {
		all[i] = &w.Calls[i]
	}
	return all
}

// failed is a request that gets no reply. It may have been executed, or may be executed later. A
// call whose request may have queued it polls: one that queues is not sent again.
func (w *World) failed(c *Call) {
	q := c.Request
	c.Request = Request{}
	switch q.Verb {
	case Acquire:
		c.Stage, c.Polled, c.Polls, c.Doubt = Queued, q.Sent, true, true
		if w.Bug == QueuesTwice {
			w.ask(c)
		}
	case Poll:
		c.Polls = true
	case Confirm, Release:
		c.Doubt = true
		w.send(c, q.Verb)
	case Renew:
		c.Fresh = false // it is tried again
	}
}

func (v Verb) String() string {
	return [...]string{"", "acquire", "confirm", "poll", "renew", "release"}[v]
}
