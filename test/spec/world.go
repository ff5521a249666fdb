package spec

import (
	"fmt"
	"slices"
)

// A World is a lock in Redis, calls that want it, and the network between. Time goes in steps: a
// step passes when nothing is due of the sessions that run. So a request takes less than a step, or
// fails, or its session is frozen; and a session that runs does what it must. That is all the
// fairness there is.
type World struct {
	*Rules
	Now      Time // on the clocks of the clients, which do not step
	Lock     *Lock
	Calls    []Call
	Sessions []Session
	Strays   []Stray
	Theirs   Theirs
	Faults   Faults // that may still happen
	Permits  int    // of a semaphore
	Last     ID     // the last hold that began, or got its whole lease
	Best     int64  // the largest token of a hold so far
	Issued   int64  // the largest token that a script has issued
	Lossy    bool   // data was lost, a clock has stepped, or the lock was forced: holds may overlap
	Why      string // the property that is broken
	cut      bool   // what follows is not explored: there are too few hold ids
	why      string // what the last step was, if the steps are told
}

// Rules are the same in all states of a world.
type Rules struct {
	Terms *Terms
	Lease Time
	Term  Time // the grant timeout
	Bound int  // steps of time that a call may wait at most while nobody validly holds the lock
	Bug   Bug
	told  bool
}

// Faults count what may happen.
type Faults struct {
	Freezes      int
	Crashes      int
	Waiters      int // crashes of sessions that have nothing but entries in the queue
	Silent       int // crashes of which the server does not learn
	Cuts         int // of subscriptions
	LostMessages int
	LostReplies  int // also of requests that are executed late, or never
	Twice        int // scripts that are executed again later
	Cancels      int
	Forces       int
	Ahead, Back  int // steps of the server's clock
	Wipes        int // losses of all data
	Redisson     int // how often a client of Redisson takes the lock
	Listens      int // how often one listens that may never come
}

// Theirs is the client of Redisson.
type Theirs struct {
	Listens, Holds bool
}

const (
	maxIDs = 6 // hold ids of a call
	start  = 1_000_000 * Second
	theirs = ID("00000000-0000-4000-8000-000000000000:1")
)

var ids = func() (all [4][maxIDs]map[int]ID) { // by call, number and session
	for call := range all {
		for n := range all[call] {
			all[call][n] = map[int]ID{}
			for session := range 4 {
				all[call][n][session] = ID(fmt.Sprintf("%c:%d%d", 'a'+session, call, n))
			}
		}
	}
	return all
}()

var sessionNames = []string{"a", "b", "c", "d"}

// id returns the hold id of a call.
func (w *World) id(c *Call) ID {
	for i := range w.Calls {
		if &w.Calls[i] == c {
			if id := ids[i][c.N][c.Session]; c.Kind == Writer {
				return id + ":write"
			} else {
				return id
			}
		}
	}
	panic("no such call")
}

func (w *World) entry(id ID, score Time) Entry {
	return Entry{ID: id, Grant: w.Term, Limit: w.Permits, Score: score}
}

// kindOf returns the kind of a hold id.
func (w *World) kindOf(id ID) Kind { return w.Calls[id[2]-'0'].Kind }

func (w *World) broken(format string, args ...any) {
	if w.Why == "" {
		w.Why = fmt.Sprintf(format, args...)
	}
}

func (w *World) clone() *World {
	n := *w
	n.Lock = w.Lock.Clone()
	n.Calls = slices.Clone(w.Calls)
	n.Sessions = slices.Clone(w.Sessions)
	for i := range n.Sessions {
		s := &n.Sessions[i]
		s.Inbox, s.Cleanups = slices.Clone(s.Inbox), slices.Clone(s.Cleanups)
	}
	n.Strays = slices.Clone(w.Strays)
	return &n
}

// run begins a script of a session; deliver publishes what it has to say.
func (w *World) run(session int) *Run {
	w.Lock.Expire(w.Now)
	return &Run{
		Lock: w.Lock, Terms: w.Terms, Now: w.Now, Session: sessionNames[session], Bug: w.Bug,
		before:  w.Lock.Fence.Token,
		Here:    func(s string) bool { return w.Sessions[s[0]-'a'].Subscribed },
		Listens: w.Theirs.Listens,
	}
}

func (w *World) deliver(r *Run) {
	if f := w.Lock.Fence.Token; f != r.before && f != 0 {
		if f <= w.Issued {
			w.broken("tokens grow: %d is issued after %d", f, w.Issued)
		}
		w.Issued = f
	}
	for _, m := range r.Out {
		if i := slices.Index(sessionNames, m.To); i >= 0 && w.Sessions[i].Subscribed && !w.Sessions[i].Dead {
			if s := &w.Sessions[i]; !slices.Contains(s.Inbox, m) {
				s.Inbox = append(s.Inbox, m)
			}
		}
	}
}

// execute executes a script for a hold id.
func (w *World) execute(c *Call, v Verb, id ID, score Time) (reply Reply) {
	r := w.run(c.Session)
	k := w.kindOf(id)
	switch v {
	case Acquire, Confirm:
		reply = [...]func(*Run, Ask) Reply{
			(*Run).MutexAcquire, (*Run).WriteAcquire, (*Run).ReadAcquire, (*Run).PermitAcquire,
		}[k](r, Ask{
			ID: id, Lease: w.Lease, Queue: v == Acquire, Entry: w.entry(id, score), Ends: c.Ends,
		})
	case Poll:
		reply, _ = [...]func(*Run, Entry) (Reply, bool){
			(*Run).MutexPoll, (*Run).WritePoll, (*Run).ReadPoll, (*Run).PermitPoll,
		}[k](r, w.entry(id, 0))
	case Renew:
		has := false
		switch k {
		case Reader:
			has = r.ReadRenew(id, w.Lease)
		case Permit:
			has = r.PermitRenew(id, w.Lease, c.Ends)
		default:
			has = r.Renew(id, w.Lease, c.Ends)
		}
		if has {
			reply.N = 1
		}
	case Release:
		reply.N = r.release(k, id)
	}
	if v == Acquire && reply.Granted() {
		w.Last = id
	}
	w.deliver(r)
	return reply
}

// release is the release script of a kind.
func (r *Run) release(k Kind, id ID) int64 {
	return [...]func(*Run, ID, Time) int64{
		(*Run).MutexRelease, (*Run).WriteRelease, (*Run).ReadRelease, (*Run).PermitRelease,
	}[k](r, id, 0)
}

// Next visits each state that may follow.
func (w *World) Next(visit func(*World)) {
	if w.cut {
		return
	}
	do := func(change func(n *World), what string, args ...any) {
		n := w.clone()
		if w.told {
			n.why = fmt.Sprintf(what, args...)
		}
		change(n)
		n.check()
		visit(n)
	}
	due := false
	for i := range w.Calls {
		due = w.nextOfCall(i, do) || due
	}
	for i := range w.Sessions {
		due = w.nextOfSession(i, do) || due
	}
	for i, s := range w.Strays {
		if w.Now >= s.Until {
			do(func(n *World) {
				n.Strays = slices.Delete(n.Strays, i, i+1)
			}, "a late %s of %s never arrives", s.Verb, s.ID)
			due = true
			continue
		}
		do(func(n *World) {
			n.Strays = slices.Delete(n.Strays, i, i+1)
			n.execute(&n.Calls[s.Call], s.Verb, s.ID, s.Score)
		}, "a late %s of %s is executed", s.Verb, s.ID)
	}
	w.nextOfRedisson(do)
	w.nextOfServer(do)
	if !due {
		do((*World).tick, "a step of time")
	}
}

type does = func(change func(n *World), what string, args ...any)

// nextOfCall does what a call may do, and reports whether that is due.
func (w *World) nextOfCall(i int, do does) (due bool) {
	c := &w.Calls[i]
	id, q := w.id(c), c.Request
	s := &w.Sessions[c.Session]
	if q.Verb != None && !q.Executed && !s.Dead {
		due = true
		do(func(n *World) {
			c := &n.Calls[i]
			c.Request.Reply = n.execute(c, q.Verb, id, q.Score)
			c.Request.Executed = true
			if (q.Verb == Renew || q.Verb == Release) && n.runs(c.Session) {
				n.replied(c, c.Request)
			}
		}, "%s of %s is executed", q.Verb, id)
		if w.Faults.LostReplies > 0 && w.runs(c.Session) {
			do(func(n *World) {
				n.Faults.LostReplies--
				n.stray(&n.Calls[i], q)
				n.failed(&n.Calls[i])
			}, "%s of %s fails, and may be executed later", q.Verb, id)
		}
		if w.Faults.Twice > 0 {
			do(func(n *World) {
				n.Faults.Twice--
				c := &n.Calls[i]
				c.Request.Reply = n.execute(c, q.Verb, id, q.Score)
				c.Request.Executed = true
				if q.Verb != Acquire { // one that queues is never sent again
					n.stray(c, q)
				}
			}, "%s of %s is executed, and sent again", q.Verb, id)
		}
	}
	if !w.runs(c.Session) {
		return due
	}
	if q.Executed {
		due = true
		do(func(n *World) { n.replied(&n.Calls[i], n.Calls[i].Request) },
			"the reply to %s of %s is read: %v", q.Verb, id, q.Reply)
		if w.Faults.LostReplies > 0 {
			do(func(n *World) {
				n.Faults.LostReplies--
				n.failed(&n.Calls[i])
			}, "the reply to %s of %s is lost", q.Verb, id)
		}
	}
	switch c.Stage {
	case Idle:
		do(func(n *World) { n.ask(&n.Calls[i]) }, "%s acquires", id)
	case Queued:
		if q.Verb == None && c.Polls {
			due = true
			do(func(n *World) {
				n.Calls[i].Polls = false
				n.send(&n.Calls[i], Poll)
			}, "%s polls", id)
		}
	case Held:
		lost := w.Now >= c.Deadline
		if lost {
			due = true
			do(func(n *World) { n.lose(&n.Calls[i]) }, "%s is lost at its deadline", id)
			break
		}
		if q.Verb == None && (c.Grant || !c.Fresh && !c.Ends) {
			due = true
			do(func(n *World) { n.send(&n.Calls[i], Renew) }, "%s is to be renewed", id)
		}
		do(func(n *World) { n.unlock(&n.Calls[i]) }, "%s unlocks", id)
		due = due || c.Ends && c.Deadline-w.Now <= Second
	case Kept:
		switch {
		case w.Now >= c.Deadline:
			due = true
			do(func(n *World) { n.lose(&n.Calls[i]) }, "%s is lost while it is kept", id)
		case !s.Subscribed: // nothing is kept while nobody could recall it
			due = true
			do(func(n *World) { n.release(&n.Calls[i]) }, "%s is not kept by a session that hears nothing", id)
		default:
			if q.Verb == None && (c.Grant || !c.Fresh) {
				due = true
				do(func(n *World) { n.send(&n.Calls[i], Renew) }, "%s is to be renewed while it is kept", id)
			}
			if c.Left > 1 {
				do(func(n *World) { n.takeOver(&n.Calls[i]) }, "%s is taken over by the next Lock", id)
			}
		}
	case Releasing:
		if w.Now >= c.Deadline+w.Lease {
			due = true
			do(func(n *World) { n.lose(&n.Calls[i]) }, "the release of %s is given up", id)
		}
	}
	if w.Faults.Cancels > 0 && (c.Stage == Asking || c.Stage == Queued || c.Stage == Confirming) {
		do(func(n *World) {
			n.Faults.Cancels--
			n.cancel(&n.Calls[i])
		}, "the call of %s is cancelled", id)
	}
	return due
}

// nextOfSession does what happens to a session, and reports whether that is due.
func (w *World) nextOfSession(i int, do does) (due bool) {
	s := &w.Sessions[i]
	name := sessionNames[i]
	if s.Dead {
		return false
	}
	if s.Frozen {
		do(func(n *World) { n.Sessions[i].Frozen = false }, "session %s goes on", name)
		return false
	}
	for j, m := range s.Inbox {
		due = true
		do(func(n *World) {
			n.Sessions[i].Inbox = slices.Delete(n.Sessions[i].Inbox, j, j+1)
			n.heard(i, m)
		}, "session %s hears %s %s", name, m.Verb, m.ID)
		if w.Faults.LostMessages > 0 {
			do(func(n *World) {
				n.Faults.LostMessages--
				n.Sessions[i].Inbox = slices.Delete(n.Sessions[i].Inbox, j, j+1)
			}, "session %s does not hear %s %s", name, m.Verb, m.ID)
		}
	}
	for j, t := range s.Cleanups {
		if t.Tried {
			continue
		}
		due = true
		do(func(n *World) { n.cleansUp(i, j, t) }, "session %s releases %s in the background", name, t.ID)
	}
	if !s.Subscribed {
		do(func(n *World) { n.resubscribed(i) }, "session %s is subscribed", name)
	}
	if w.Faults.Cuts > 0 && s.Subscribed {
		do(func(n *World) {
			n.Faults.Cuts--
			n.Sessions[i].Subscribed, n.Sessions[i].Inbox = false, nil
		}, "session %s is cut off", name)
	}
	if w.Faults.Freezes > 0 {
		do(func(n *World) {
			n.Faults.Freezes--
			n.Sessions[i].Frozen = true
		}, "session %s freezes", name)
	}
	if w.Faults.Crashes > 0 {
		do(func(n *World) {
			n.Faults.Crashes--
			n.crash(i, false)
		}, "session %s crashes", name)
	}
	if w.Faults.Waiters > 0 && (w.Lock.Free() || w.Lock.Holders[0].ID.Session() != name) {
		do(func(n *World) {
			n.Faults.Waiters--
			n.crash(i, false)
		}, "session %s crashes, which has not the lock", name)
	}
	if w.Faults.Silent > 0 {
		do(func(n *World) {
			n.Faults.Silent--
			n.crash(i, true)
		}, "session %s crashes, and the server does not know", name)
	}
	return due
}

// resubscribed is Resubscribed of internal/queue/queue.go: every waiter polls.
func (w *World) resubscribed(session int) {
	w.Sessions[session].Subscribed = true
	for i := range w.Calls {
		if c := &w.Calls[i]; c.Session == session && (c.Stage == Queued || c.Stage == Asking) {
			c.Polls = true
		}
	}
}

// cleansUp is release and answered of internal/lease/cleanup.go.
func (w *World) cleansUp(session, j int, t Cleanup) {
	r := w.run(session)
	found := r.release(w.kindOf(t.ID), t.ID) >= 0
	w.deliver(r)
	s := &w.Sessions[session]
	if found || w.Now >= t.Doubt {
		s.Cleanups = slices.Delete(s.Cleanups, j, j+1)
	} else {
		s.Cleanups[j].Tried = true
	}
}

// crash ends a process. If the server does not know, its subscription still counts.
func (w *World) crash(session int, silent bool) {
	w.Sessions[session] = Session{Dead: true, Subscribed: silent}
	for i := range w.Calls {
		if c := &w.Calls[i]; c.Session == session {
			if q := c.Request; q.Verb != None && !q.Executed {
				w.stray(c, q)
			}
			*c = Call{Session: session, Kind: c.Kind, Stage: Over}
		}
	}
}

// nextOfRedisson does what a client of Redisson may do: it takes a lock that is free, whoever waits.
func (w *World) nextOfRedisson(do does) {
	t, locked := w.Theirs, w.Lock.Clone()
	locked.Expire(w.Now)
	if !t.Listens && !locked.Free() && (w.Faults.Redisson > 0 || w.Faults.Listens > 0) {
		do(func(n *World) { n.Theirs.Listens = true }, "Redisson finds it taken, and listens")
	}
	if t.Listens && w.Faults.Listens > 0 {
		do(func(n *World) {
			n.Faults.Listens--
			n.Theirs.Listens = false
		}, "Redisson does not listen any more")
	}
	if w.Faults.Redisson > 0 && locked.Free() && !t.Holds {
		do(func(n *World) {
			n.Faults.Redisson--
			n.Theirs = Theirs{Holds: true}
			n.Lock.Expire(n.Now)
			n.Lock.Holders, n.Lock.Ends = []Holder{{ID: theirs}}, n.Now+100*Second
		}, "Redisson takes the lock")
	}
	if t.Holds {
		do(func(n *World) {
			n.Theirs.Holds = false
			n.Lock.drop(theirs)
		}, "Redisson unlocks")
	}
}

// nextOfServer does what happens to the server.
func (w *World) nextOfServer(do does) {
	if w.Faults.Forces > 0 && !w.Lock.Free() {
		do(func(n *World) {
			n.Faults.Forces--
			n.Lossy = true
			r := n.run(0)
			r.Session = ""
			r.Force(nil)
			n.deliver(r)
		}, "an operator forces the lock open")
	}
	if w.Faults.Wipes > 0 {
		do(func(n *World) {
			n.Faults.Wipes--
			n.Lossy, n.Lock = true, &Lock{}
			n.stepped(Millisecond) // that takes some time
		}, "the server loses its data")
	}
	if w.Faults.Ahead > 0 {
		do(func(n *World) {
			n.Faults.Ahead--
			n.Lossy = true
			n.stepped(Second)
		}, "the server's clock goes ahead")
	}
	if w.Faults.Back > 0 {
		do(func(n *World) {
			n.Faults.Back--
			if n.Lock.Expire(n.Now); n.Lock.Fence.Token == 0 { // nothing remembers the last token
				n.Best, n.Issued = 0, 0
			}
			n.stepped(-Second)
		}, "the server's clock goes back")
	}
}

// tick is a step of time.
func (w *World) tick() {
	idle := !w.Theirs.Holds
	if !w.Lock.Free() && w.Lock.Holders[0].ID == w.Last { // the lease of a hold must run out
		idle = w.runs(int(w.Last[0] - 'a'))
	}
	for i := range w.Calls {
		idle = idle && !(w.Valid(&w.Calls[i]) && w.runs(w.Calls[i].Session))
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		waits := c.Stage == Asking || c.Stage == Queued || c.Stage == Confirming
		if s := &w.Sessions[c.Session]; waits && idle && w.runs(c.Session) && s.Subscribed {
			if c.Waits++; c.Waits > w.Bound {
				property := "a waiter gets in"
				if slices.ContainsFunc(w.Calls, func(o Call) bool { return o.Stage == Kept }) {
					property = "a kept lock that is wanted is given up"
				}
				w.broken("%s: %s has waited for %d steps while nobody validly held the lock",
					property, w.id(c), c.Waits)
			}
		}
		c.Fresh = false
		c.Polls = c.Polls || c.Stage == Queued && w.runs(c.Session)
	}
	for i := range w.Sessions {
		for j := range w.Sessions[i].Cleanups {
			w.Sessions[i].Cleanups[j].Tried = false
		}
	}
	w.Now += Second
}

// check checks what must hold in every state.
func (w *World) check() {
	w.checkOverlap()
	w.Lock.Expire(w.Now)
	for _, q := range []*Queue{&w.Lock.Queue, &w.Lock.Readers} {
		for _, e := range q.Entries {
			w.mustBeKnown(e.ID, "an entry")
		}
	}
	if w.done() {
		for _, h := range w.Lock.Holders {
			if h.ID != theirs && h.Ends == 0 { // of others the key lives as long as that of the longest lease
				w.mustBeKnown(h.ID, "a hold")
			}
		}
	}
}

func (w *World) checkOverlap() {
	if w.Lossy {
		return
	}
	permits := 0
	for i := range w.Calls {
		c := &w.Calls[i]
		if !w.Valid(c) {
			continue
		}
		if c.Kind == Permit {
			permits++
		}
		for j := range w.Calls[:i] {
			o := &w.Calls[j]
			shares := c.Kind == Reader && o.Kind == Reader || c.Kind == Permit && c.Slot != o.Slot
			if w.Valid(o) && !shares {
				w.broken("valid holds never overlap: %s and %s are valid", w.id(c), w.id(o))
			}
		}
	}
	if permits > w.Permits {
		w.broken("valid holds never overlap: %d of %d permits are valid", permits, w.Permits)
	}
}

// done reports whether all calls are over.
func (w *World) done() bool {
	return !slices.ContainsFunc(w.Calls, func(c Call) bool { return c.Stage != Over })
}

// mustBeKnown checks that what is in Redis is a call's, or about to be removed, as long as its
// session lives.
func (w *World) mustBeKnown(id ID, what string) {
	if id == Redisson || w.cut {
		return
	}
	session := int(id[0] - 'a')
	s := &w.Sessions[session]
	if s.Dead {
		return
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		if w.id(c) == id && c.Stage != Idle && c.Stage != Over {
			return
		}
	}
	byID := func(t Cleanup) bool { return t.ID == id }
	granted := func(m Message) bool { return m.ID == id && m.Verb == "granted" }
	late := func(t Stray) bool { return t.ID == id }
	if slices.ContainsFunc(s.Cleanups, byID) || slices.ContainsFunc(s.Inbox, granted) ||
		slices.ContainsFunc(w.Strays, late) {
		return
	}
	w.broken("nothing stays behind: %s of %s is left in Redis", what, id)
}
