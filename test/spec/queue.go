package spec

import "slices"

// The queue of a lock: lua/queue.lua, and what the usual ways need of it, in core.lua.

// arrive is arrive of core.lua: an entry queues, with the score that it had before or the time. It
// reports whether nobody of relock waits already.
func (r *Run) arrive(q *Queue, e Entry) (score Time, first bool) {
	var latest Time
	for _, o := range q.Entries {
		if o.ID != Redisson {
			latest, first = o.Score, true
		}
	}
	lull := max(r.Now-latest, latest-r.Now)
	if first = !first; first || e.Limit == 0 && lull > r.Lull {
		q.Ends = r.Now.ms() + r.QueueLives
	}
	if e.Score == 0 {
		e.Score = max(r.Now, latest+1)
	}
	q.put(e)
	return e.Score, first
}

// used is used of core.lua: the first waiter has found that Redisson has the lock. Its turn is over.
func (r *Run) used() {
	r.forget()
	if i := r.Queue.Index(Redisson); i >= 0 && r.Queue.Entries[i].Score < 0 {
		r.Queue.put(Entry{ID: Redisson, Score: r.Now + r.AfterUsed})
	}
}

// here is isHere of queue.lua. It must be known before a grant is published.
func (r *Run) here(session string) bool {
	return session == r.Session || r.Here(session) || r.Bug == AbsentAreGranted
}

// turn is turn of queue.lua: for how long it is Redisson's turn, and whether it begins only now; 0
// if it is not.
func (r *Run) turn(score Time) (left Time, begins bool) {
	switch left := r.Turn - score - r.Now; {
	case !r.Listens:
		r.passed = append(r.passed, Redisson)
	case score < 0 && left > 0 && left <= r.Turn:
		return (left + Millisecond - 1).ms(), false
	case score < 0 && r.Bug == TurnWithoutEnd:
		return r.Turn, false
	case score < 0:
		r.later = true
		r.Queue.put(Entry{ID: Redisson, Score: r.Now + r.AfterOther})
	case score <= r.Now || score > r.Now+r.AfterOther:
		return r.Turn, true
	default:
		r.later = true
	}
	return 0, false
}

// A winner is who gets the lock next.
type winner struct {
	Entry
	more   bool // others wait behind it
	left   Time // if it is Redisson: for how long it is its turn,
	begins bool // and whether that begins only now
	token  int64
	again  int64
}

func (w *winner) is(id ID) bool { return w.ID == id && id != "" }

// next is nextOf of queue.lua: the first entry whose session is there. What it passes is noted.
func (r *Run) next() (w winner) {
	for _, e := range slices.Clone(r.Queue.Entries) {
		switch {
		case e.ID == Redisson:
			if w.left, w.begins = r.turn(e.Score); w.left > 0 {
				w.Entry = e
				return w
			}
		case r.here(e.ID.Session()):
			w.Entry = e
			w.more = r.Queue.Index(e.ID) < len(r.Queue.Entries)-1
			return w
		default:
			r.passed = append(r.passed, e.ID)
		}
	}
	return w
}

// dropPassed is dropPassed of queue.lua. A waiter whose entry is removed finds that at its next
// poll, and comes back with its old score.
func (r *Run) dropPassed() {
	for _, id := range r.passed {
		r.Queue.remove(id)
	}
	r.passed = nil
}

// dropSession is dropSession of queue.lua: all entries of a session whose lease has run out go, and
// it is told, if it is there after all.
func (r *Run) dropSession(session string) {
	var ids []ID
	for _, q := range []*Queue{&r.Queue, &r.Readers} {
		q.Entries = slices.DeleteFunc(q.Entries, func(e Entry) bool {
			if e.ID.Session() == session {
				ids = append(ids, e.ID)
			}
			return e.ID.Session() == session
		})
	}
	for _, id := range ids {
		r.tell(session, "poll", id)
	}
}

// lapsed is lapsed of queue.lua: a lock is free although others wait. If the fence key names a hold,
// that hold's lease or grant has run out: no script has ended it. Its session may be frozen, so all
// its entries go, unless it is this session; then the caller gives the lock to the next. Its waiters
// find that when they poll, and come back with their old scores. A winner that reads its grant too
// late confirms: if the lock is another's, it asks again with its old score; if the lock is free and
// no other waiter is there, it takes the lock under the same hold id.
func (r *Run) lapsed() {
	of := r.Fence.Of
	if !of.isHold() || of.Session() == r.Session || r.Bug == LapsedCostEachEntry {
		return
	}
	r.dropSession(of.Session())
	r.forget()
}

// wakeFirst is wakeFirst of queue.lua: the first waiter of relock polls.
func (r *Run) wakeFirst(q *Queue) {
	if e := q.first(); e != nil {
		r.tell(e.ID.Session(), "poll", e.ID)
	}
}

// mark is mark of queue.lua: Redisson's turn begins. The lock is free, though no lease has run out.
func (r *Run) mark() {
	r.Queue.put(Entry{ID: Redisson, Score: -r.Now})
	r.Queue.Ends = r.Now.ms() + r.QueueLives
	r.forget()
}

// wakeRedisson is wakeRedisson of queue.lua.
func (r *Run) wakeRedisson(text string) (told bool) {
	r.tell(string(Redisson), text, "")
	if text == "1" && r.Listens {
		r.tell(string(Redisson), "00", "")
	}
	return r.Listens
}

// leave is leave of queue.lua: a free lock is left to Redisson.
func (r *Run) leave(text string) {
	r.dropPassed()
	r.mark()
	r.wakeFirst(&r.Queue)
	r.wakeFirst(&r.Readers)
	r.wakeRedisson(text)
}

// pass is pass of queue.lua: the first entry that is there gets the lock, and the hold that ends
// loses it. The call of asks learns of that by the reply, and has its whole lease then; all others
// are told, and have the lock for their grant timeout. Redisson gets nothing: the caller leaves the
// lock free.
func (r *Run) pass(ends ID, asks ID, lease Time, of ID) winner {
	w := r.next()
	if w.ID == "" || w.ID == Redisson {
		return w
	}
	if r.Listens {
		if i := r.Queue.Index(Redisson); i < 0 || r.Queue.Entries[i].Score > r.Now+r.AfterOther {
			r.Queue.put(Entry{ID: Redisson, Score: r.Now})
		}
		w.more = true
	}
	if w.ID != asks {
		lease, of = w.Grant, w.ID
	}
	w.token, w.again = r.issue(of, lease) // grant of core.lua
	r.drop(ends)
	if r.Holders = append(r.Holders, Holder{ID: w.ID}); w.ID.Writes() {
		r.Mode = "write"
	}
	r.Ends = r.Now.ms() + lease
	r.passed = append(r.passed, w.ID)
	r.dropPassed()
	if w.ID != asks { // give of core.lua
		r.Out = append(r.Out, Message{
			To: w.ID.Session(), Verb: "granted", ID: w.ID,
			Grant: Grant{Token: w.token, Term: lease, More: w.more, Slot: -1},
		})
	}
	return w
}
