package spec

import "slices"

// The scripts of the two sides of a RWMutex, with phase.lua and readers.lua. Readers that queue when
// a writer leaves are let in together; new readers queue while a writer does. Lock.Queue is that of
// the writers.

// fenceOf is fenceOf of token.lua: a fence without a token names nobody but readers.
func (r *Run) fenceOf() ID {
	if r.Fence.Token == 0 && r.Fence.Of != Readers {
		return Nobody
	}
	return r.Fence.Of
}

// beginPhase is beginPhase of phase.lua: readers get the lock, of which they had nothing.
func (r *Run) beginPhase() {
	if r.fenceOf() != Readers || r.Fence.Rests > 0 {
		r.Fence = Fence{Token: r.Fence.Token, Of: Readers, Ends: max(r.Fence.Ends, r.Now.ms()+r.Memory)}
	}
}

// stay is stay of phase.lua: the lock stays taken for a while after all readers have left it.
func (r *Run) stay(rest Time) {
	rests := r.Now.ms() + rest
	if r.Fence.Of == Readers {
		rests = max(rests, r.Fence.Rests)
	}
	ends := max(r.Fence.Ends, r.Now.ms()+rest+r.Memory)
	r.Fence = Fence{Token: r.Fence.Token, Of: Readers, Rests: rests, Ends: ends}
	r.prolong(rest)
}

// A guest is a reader that is let in.
type guest struct {
	id    ID
	lease Time
}

// enter is enter of readers.lua: readers are let in. ends is a hold that ends with that.
func (r *Run) enter(guests []guest, ends ID) {
	longest := Time(0)
	if r.Mode != "" && ends == "" { // others have it as well
		longest = r.Ends - r.Now.ms()
	}
	if r.Mode != "write" || ends != "" { // else their owner writes
		r.Mode = "read"
	}
	for _, g := range guests {
		h := Holder{ID: g.id, Ends: r.Now.ms() + g.lease}
		if i := r.index(g.id); i >= 0 {
			r.Holders[i] = h
		} else {
			r.Holders = append(r.Holders, h)
		}
		longest = max(longest, g.lease)
	}
	r.drop(ends)
	r.Ends = r.Now.ms() + longest
}

// admit is admit of readers.lua: the readers that queue are let in. The call of asks learns of that
// by the reply, and has that lease; all others are told, and whether a writer waits.
func (r *Run) admit(ends, asks ID, lease Time) bool {
	var guests []guest
	entries := r.Readers.Entries
	for _, e := range entries {
		if !r.here(e.ID.Session()) {
			continue
		}
		g := guest{e.ID, e.Grant}
		if e.ID == asks {
			g.lease = lease
		}
		guests = append(guests, g)
	}
	r.Readers.Entries = nil
	if len(guests) == 0 {
		return false
	}
	if r.Mode != "read" {
		r.beginPhase()
	}
	r.enter(guests, ends)
	for _, g := range guests {
		if g.id != asks {
			r.Out = append(r.Out, Message{
				To: g.id.Session(), Verb: "granted", ID: g.id,
				Grant: Grant{Token: r.writerWaits() + 1, Term: g.lease, Slot: -1},
			})
		}
	}
	return true
}

// writerWaits returns 1 if there is a queue of writers, else 0.
func (r *Run) writerWaits() int64 { return int64(min(len(r.Queue.Entries), 1)) }

// blocked is blocked of readers.lua: whether new readers queue, since a writer does, or since
// Redisson listens, whose waiter may be one.
func (r *Run) blocked() bool {
	none := len(r.Queue.Entries) == 0
	w := r.next()
	if w.ID == "" && none && r.Listens {
		r.Queue.put(Entry{ID: Redisson, Score: r.Now})
		r.Queue.Ends = r.Now.ms() + r.QueueLives
		return true
	}
	return w.ID != ""
}

// passOn is passOn of readers.lua: a lock that is free, or whose hold ends, goes to the readers that
// queue if they come first, else to the next writer, else to readers. It reports whether it has let
// readers in.
func (r *Run) passOn(ends ID, readersFirst bool, asks ID, lease Time, of ID) (w winner, letIn bool) {
	if readersFirst && r.admit(ends, asks, lease) {
		return w, true
	}
	w = r.pass(ends, asks, lease, of)
	if w.ID == "" {
		r.dropPassed()
		letIn = !readersFirst && r.admit(ends, asks, lease)
	}
	return w, letIn
}

// passFree is passFree of readers.lua: a lock is free although others wait. Readers come first
// unless they had it.
func (r *Run) passFree(asks ID, lease Time, of ID) (winner, bool) {
	first := r.Queue.Entries
	theirs := len(first) > 0 && first[0].ID == Redisson && first[0].Score < 0
	readersFirst := !theirs && r.fenceOf() != Readers
	r.lapsed()
	return r.passOn("", readersFirst, asks, lease, of)
}

// taken is taken of core.lua: the reply to a call that finds a lock taken.
func (r *Run) taken(score Time, theirs bool) Reply {
	if r.Free() {
		return waits(Millisecond, score, theirs)
	}
	return waits(r.Ends-r.Now.ms(), score, theirs)
}

// WriteAcquire is write_acquire.lua.
func (r *Run) WriteAcquire(a Ask) Reply {
	take := func() Reply {
		token, again := r.issue(a.of(), a.Lease)
		r.Holders, r.Mode, r.Ends = []Holder{{ID: a.ID}}, "write", r.Now.ms()+a.Lease
		return holds(token, a.Lease, false, again)
	}
	if r.Free() && len(r.Queue.Entries)+len(r.Readers.Entries) == 0 {
		return take()
	}
	has, _ := r.holder()
	score, first, asks := a.Entry.Score, false, ID("")
	if a.Queue {
		score, first = r.arrive(&r.Queue, a.Entry)
		asks = a.Entry.ID
	}
	switch {
	case has == "":
		w, letIn := r.passFree(asks, a.Lease, a.of())
		switch {
		case w.is(asks):
			return holds(w.token, a.Lease, w.more, w.again)
		case letIn:
		case w.ID == "" && !a.Queue:
			return take()
		case w.ID == "":
			return waits(Millisecond, score, true)
		case w.ID == Redisson:
			if w.begins {
				r.leave("1")
			}
			return waits(w.left, score, true)
		}
	case !a.Queue && r.Has(a.ID):
		r.prolong(a.Lease)
		r.remember(a.Lease)
		return r.mutexFound(a.of(), a.Lease, a.Lease)
	case first && has.OfRedisson():
		r.used()
		return r.taken(score, true)
	case first && r.Mode != "read":
		r.want(has)
	}
	return r.taken(score, false)
}

// WritePoll is write_poll.lua for one waiter.
func (r *Run) WritePoll(e Entry) (reply Reply, theirs bool) {
	i := r.Queue.Index(e.ID)
	if i < 0 {
		if left := r.Ends - r.Now.ms(); left > 0 && r.Has(e.ID) {
			return r.mutexFound(e.ID, left, left), false
		}
		return Reply{N: Gone}, false
	}
	e = r.Queue.Entries[i]
	r.Queue.Ends = r.Now.ms() + r.QueueLives
	has, _ := r.holder()
	switch {
	case has == "":
		w, letIn := r.passFree(e.ID, e.Grant, e.ID)
		switch {
		case w.ID == e.ID:
			return holds(w.token, e.Grant, w.more, w.again), false
		case w.ID == "" && !letIn:
			return Reply{N: Gone}, false
		case w.ID == Redisson:
			if w.begins {
				r.leave("1")
			}
			return waits(w.left, e.Score, r.Queue.Index(e.ID) == 1), true
		}
	case has.OfRedisson():
		r.used()
		return r.taken(e.Score, r.Queue.first().ID == e.ID && r.Queue.Index(e.ID) <= 1), true
	case r.Mode != "read":
		r.want(has)
	}
	return r.taken(e.Score, false), false
}

// WriteRelease is write_release.lua: the readers that queue are let in, else the next writer gets
// the lock. If the owner still reads, the lock goes on in read mode.
func (r *Run) WriteRelease(id ID, rest Time) int64 {
	alone := len(r.Holders) == 1
	switch {
	case len(r.Queue.Entries)+len(r.Readers.Entries) == 0 && rest == 0 && alone:
		if !r.drop(id) {
			return -1
		}
		if r.wakeRedisson("1") {
			r.mark()
		}
		return told(r.Listens)
	case !r.Has(id):
		first := r.Queue.first()
		first1 := first != nil && first.ID == id && r.Queue.Index(id) <= 1
		if !r.Queue.remove(id) {
			return -1
		}
		if first1 && r.Mode == "read" && !r.blocked() {
			r.dropPassed()
			r.admit("", "", 0)
		} else if first1 {
			r.wakeFirst(&r.Queue)
		}
		return 0
	case rest != 0 && alone:
		r.Holders[0].Rests = true
		r.Ends = r.Now.ms() + rest
		r.forget()
		r.remember(rest)
		r.wakeFirst(&r.Queue)
		r.wakeFirst(&r.Readers)
		r.wakeRedisson("1")
		return 0
	case !alone: // its owner reads on, and others may
		r.drop(id)
		r.Mode = "read"
		r.forget()
		if !r.admit("", "", 0) {
			r.wakeRedisson("1")
		}
		return 0
	}
	w, letIn := r.passOn(id, true, "", 0, "")
	if letIn || w.ID != "" && w.ID != Redisson {
		return 0
	}
	r.drop(id)
	return r.leftFree(w, "1")
}

// leftFree is the end of write_release.lua and read_release.lua: nobody of relock gets the lock.
func (r *Run) leftFree(w winner, text string) int64 {
	if w.ID == Redisson {
		r.leave(text)
	} else if r.wakeRedisson(text) && !r.later {
		r.mark()
	}
	return told(r.Listens)
}

// ReadAcquire is read_acquire.lua.
func (r *Run) ReadAcquire(a Ask) Reply {
	if a.Join == "" && r.Free() && len(r.Queue.Entries)+len(r.Readers.Entries) == 0 {
		r.enter([]guest{{a.ID, a.Lease}}, "")
		r.beginPhase()
		return holds(1, a.Lease, false, 0)
	}
	has, _ := r.holder()
	if a.Join != "" && !r.Has(a.Join) {
		return Reply{N: 4}
	}
	held := r.index(a.ID) >= 0 || a.Writer != "" && r.index(a.Writer) >= 0
	if held || r.Mode == "read" && !r.blocked() {
		r.dropPassed()
		if a.Join != "" {
			return Reply{N: 3}
		}
		r.enter([]guest{{a.ID, a.Lease}}, "")
		if !held { // others were held up by who is not there
			r.admit("", "", 0)
		}
		return holds(1, a.Lease, r.writerWaits() > 0, 0)
	}
	score, first := a.Entry.Score, false
	if a.Queue {
		score, first = r.arrive(&r.Readers, a.Entry)
	}
	switch {
	case has == "":
		if !a.Queue {
			r.Readers.put(Entry{ID: a.Entry.ID, Grant: a.Entry.Grant, Score: r.Now})
		}
		w, _ := r.passFree(a.Entry.ID, a.Lease, "")
		if !a.Queue {
			r.Readers.remove(a.Entry.ID)
		}
		if r.index(a.ID) >= 0 {
			return holds(1, a.Lease, r.writerWaits() > 0, 0)
		}
		if w.ID == Redisson {
			if w.begins {
				r.leave("1")
			}
			return waits(w.left, score, true)
		}
	case first && has.OfRedisson():
		r.used()
		return r.taken(score, true)
	case first && r.Mode != "read":
		r.want(has)
	}
	return r.taken(score, false)
}

// ReadPoll is read_poll.lua for one waiter. It also lets readers in that no writer holds up.
func (r *Run) ReadPoll(e Entry) (reply Reply, theirs bool) {
	i := r.Readers.Index(e.ID)
	if i < 0 {
		if at := r.index(e.ID); at >= 0 && r.Has(e.ID) && r.Holders[at].Ends > r.Now.ms() {
			return holds(1, r.Holders[at].Ends-r.Now.ms(), r.writerWaits() > 0, 0), false
		}
		return Reply{N: Gone}, false
	}
	e = r.Readers.Entries[i]
	r.Readers.Ends = r.Now.ms() + r.Polled
	has, _ := r.holder()
	var w winner
	if has == "" {
		w, _ = r.passFree(e.ID, e.Grant, "")
	} else if r.Mode == "read" && !r.blocked() {
		r.dropPassed()
		r.admit("", e.ID, e.Grant)
	}
	first := func() bool { return len(r.Readers.Entries) > 0 && r.Readers.Entries[0].ID == e.ID }
	switch {
	case r.index(e.ID) >= 0:
		return holds(1, e.Grant, r.writerWaits() > 0, 0), false
	case w.ID == Redisson:
		if w.begins {
			r.leave("1")
		}
		return waits(w.left, e.Score, first()), true
	case has.OfRedisson():
		r.used()
		return r.taken(e.Score, first()), true
	case has != "" && r.Mode != "read":
		r.want(has)
	}
	return r.taken(e.Score, false), false
}

// ReadRelease is read_release.lua: the last reader gives the lock to the next writer, else to
// readers that queue.
func (r *Run) ReadRelease(id ID, rest Time) int64 {
	if !r.Has(id) {
		if r.index(id) >= 0 || !r.Readers.remove(id) {
			return -1
		}
		return 0
	}
	if rest != 0 && r.Mode == "read" { // else its owner writes on
		r.stay(rest)
	}
	resting := -1 // the one that stays with a 0
	if len(r.Holders) == 2 {
		resting = slices.IndexFunc(r.Holders, func(h Holder) bool { return h.Rests })
	}
	if len(r.Holders) > 1 && resting < 0 {
		r.drop(id)
		return 0
	}
	rests := Time(0)
	if r.Fence.Of == Readers {
		rests = r.Fence.Rests
	}
	if rests > r.Now.ms() {
		if resting >= 0 {
			r.drop(id)
		}
		r.Holders[0].Rests = true
		r.Ends = rests
		r.wakeFirst(&r.Queue)
		return 0
	}
	r.Holders, r.Mode, r.Ends = nil, "", 0
	if len(r.Queue.Entries)+len(r.Readers.Entries) == 0 {
		if r.wakeRedisson("0") {
			r.mark()
		}
		return told(r.Listens)
	}
	w, letIn := r.passOn("", false, "", 0, "")
	if letIn || w.ID != "" && w.ID != Redisson {
		return 0
	}
	return r.leftFree(w, "0")
}

// ReadRenew is read_renew.lua for one hold.
func (r *Run) ReadRenew(id ID, lease Time) bool {
	i := r.index(id)
	if i < 0 || !r.Has(id) || r.Holders[i].Ends <= r.Now.ms() {
		return false
	}
	r.Holders[i].Ends = r.Now.ms() + lease
	r.prolong(lease)
	return true
}

// rwForce is force.lua for a RWMutex: the first waiters poll.
func (r *Run) rwForce(some []ID) int64 {
	var lost []ID
	for _, h := range r.Holders {
		id := h.ID
		if id.Writes() {
			id = id[:len(id)-len(":write")]
		}
		if len(some) > 0 && !contains(some, id) {
			return -1
		}
		lost = append(lost, id)
	}
	r.Holders, r.Mode, r.Ends = nil, "", 0
	r.forget()
	for _, id := range lost {
		r.tell(id.Session(), "lost", id)
	}
	r.wakeFirst(&r.Queue)
	r.wakeFirst(&r.Readers)
	r.wakeRedisson("1")
	return 1
}
