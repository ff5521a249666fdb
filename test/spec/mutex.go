package spec

// The scripts of Mutex and FairMutex, one method for each verb.

// An Ask is what acquire scripts are given.
type Ask struct {
	ID    ID
	Lease Time
	Queue bool  // it queues if the lock is taken
	Entry Entry // what it queues
	Ends  bool  // the lease ends by itself: the fence key does not name it

	// Of a reader.
	Writer, Join ID
}

// of returns the hold id for the fence key.
func (a *Ask) of() ID {
	if a.Ends {
		return Nobody
	}
	return a.ID
}

// MutexAcquire is mutex_acquire.lua.
func (r *Run) MutexAcquire(a Ask) Reply {
	if r.Free() && len(r.Queue.Entries) == 0 {
		return r.mutexTake(a)
	}
	if has, ttl := r.holder(); has != "" {
		if !a.Queue {
			if !r.Has(a.ID) {
				return waits(ttl, 0, false)
			}
			r.prolong(a.Lease)
			r.remember(a.Lease)
			return r.mutexFound(a.of(), a.Lease, a.Lease)
		}
		score, first := r.arrive(&r.Queue, a.Entry)
		if first && has.OfRedisson() {
			r.used()
			return waits(ttl, score, true)
		}
		if first && r.Bug != RecallUnsaid {
			r.want(has)
		}
		return waits(ttl, score, false)
	}
	// It is free: a lease has run out, or it is Redisson's turn.
	score, asks := a.Entry.Score, ID("")
	if a.Queue {
		score, _ = r.arrive(&r.Queue, a.Entry)
		asks = a.Entry.ID
	}
	r.lapsed()
	w := r.pass("", asks, a.Lease, a.of())
	if w.is(asks) {
		return holds(w.token, a.Lease, w.more, w.again)
	}
	r.dropPassed()
	switch {
	case !a.Queue && w.ID == "":
		return r.mutexTake(a)
	case w.ID == Redisson:
		if w.begins {
			r.leave("0")
		}
		return waits(w.left, score, true)
	}
	return waits(r.Ends-r.Now.ms(), score, false)
}

// mutexTake is take of mutex_acquire.lua.
func (r *Run) mutexTake(a Ask) Reply {
	token, again := r.issue(a.of(), a.Lease)
	r.Holders, r.Ends = []Holder{{ID: a.ID}}, r.Now.ms()+a.Lease
	return holds(token, a.Lease, false, again)
}

// mutexFound is the reply to a hold that is there already.
func (r *Run) mutexFound(of ID, lease, left Time) Reply {
	token := r.tokenOf(of)
	if token == 0 {
		token, _ = r.issue(of, lease)
	}
	return holds(token, left, false, 1)
}

// MutexPoll is mutex_poll.lua for one waiter. It queues nobody.
func (r *Run) MutexPoll(e Entry) (reply Reply, theirs bool) {
	i := r.Queue.Index(e.ID)
	if i < 0 { // found of mutex_poll.lua
		if _, left := r.holder(); left > 0 && r.Has(e.ID) {
			return r.mutexFound(e.ID, left, left), false
		}
		return Reply{N: Gone}, false
	}
	e = r.Queue.Entries[i]
	r.Queue.Ends = r.Now.ms() + r.Polled
	if has, ttl := r.holder(); has != "" {
		if !has.OfRedisson() {
			if r.Bug != RecallUnsaid {
				r.want(has)
			}
			return waits(ttl, e.Score, false), false
		}
		r.used()
		return waits(ttl, e.Score, r.Queue.first().ID == e.ID && r.Queue.Index(e.ID) <= 1), true
	}
	term := e.Grant
	if r.Bug == PollGrantsTheLease {
		term = 100 * Second
	}
	r.lapsed()
	second := r.Queue.Index(e.ID) == 1
	switch w := r.pass("", e.ID, term, e.ID); w.ID {
	case e.ID:
		return holds(w.token, term, w.more, w.again), false
	case "":
		return Reply{N: Gone}, false
	case Redisson:
		if w.begins {
			r.leave("0")
		}
		r.dropPassed()
		return waits(w.left, e.Score, second), true
	default:
		return waits(r.Ends-r.Now.ms(), e.Score, false), false
	}
}

// MutexRelease is mutex_release.lua: a hold ends, and the next of the queue gets the lock. rest is
// for how long it stays taken all the same. Without a hold an entry leaves the queue. It returns -1
// if there was neither, 1 if clients of Redisson were told that the lock is free, else 0.
func (r *Run) MutexRelease(id ID, rest Time) int64 {
	if !r.Has(id) && r.Bug == ReleaseOfAnybodys && !r.Free() {
		id = r.Holders[0].ID
	}
	switch {
	case len(r.Queue.Entries) == 0 && rest == 0:
		if !r.drop(id) {
			return -1
		}
		if r.wakeRedisson("0") {
			r.mark()
			return 1
		}
		return 0
	case !r.Has(id):
		first := r.Queue.first()
		wakes := first != nil && first.ID == id && r.Queue.Index(id) <= 1
		if r.Bug == CancelledStaysQueued || !r.Queue.remove(id) {
			return -1
		}
		if wakes {
			r.wakeFirst(&r.Queue)
		}
		return 0
	case rest != 0:
		r.Holders[r.index(id)].Rests = true
		r.Ends = r.Now.ms() + rest
		r.forget()
		r.remember(rest)
		r.wakeFirst(&r.Queue)
		r.wakeRedisson("0")
		return 0
	}
	w := r.pass(id, "", 0, "")
	if w.ID != "" && w.ID != Redisson {
		return 0
	}
	r.drop(id)
	if w.ID == Redisson {
		r.leave("0")
		return told(r.Listens)
	}
	r.dropPassed()
	if r.wakeRedisson("0") && !r.later {
		r.mark()
	}
	return told(r.Listens)
}

func told(listens bool) int64 {
	if listens {
		return 1
	}
	return 0
}

// Renew is renew.lua for one hold. It reports whether the hold is there. A lease that ends by itself
// is renewed once, to its length: then the fence key does not name it any more.
func (r *Run) Renew(id ID, lease Time, ends bool) bool {
	if !r.Has(id) {
		return false
	}
	if !id.Writes() || len(r.Holders) == 1 || r.Ends < r.Now.ms()+lease {
		r.Ends = r.Now.ms() + lease
	}
	r.renewFence(lease, ends)
	return true
}

// renewFence has the fence key outlive a lease that is renewed, for that of the next renewal as well.
func (r *Run) renewFence(lease Time, ends bool) {
	if r.Fence.Ends == 0 {
		return
	}
	if ends {
		r.forget()
	}
	if r.Fence.Ends-r.Now.ms() < lease+r.Memory {
		r.Fence.Ends = r.Now.ms() + 2*lease + r.Memory
	}
}

// Handoff is handoff.lua: a hold goes to a ticket, or from it. It returns the token, or for a ticket
// the time; negative if neither has the lock.
func (r *Run) Handoff(from, to ID, lease Time, of ID, ticket bool) int64 {
	now := int64(r.Now / Millisecond)
	var token int64
	switch {
	case r.Has(to):
		r.prolong(lease)
		if token = r.tokenOf(of); token == 0 && !ticket {
			token, _ = r.issue(of, lease)
		}
	case !r.Has(from):
		return -now
	default:
		token, _ = r.issue(of, lease)
		r.Holders, r.Ends = []Holder{{ID: to}}, r.Now.ms()+lease
		r.wakeFirst(&r.Queue)
		r.wakeRedisson("0")
	}
	if ticket {
		return now
	}
	return token
}

// Raise is raise.lua: the last token becomes that of a Redlock, where the Redlock has its hold.
func (r *Run) Raise(id ID, token int64, lease Time) bool {
	if !r.Has(id) {
		return false
	}
	if token%1024 == 0 && r.Fence.Token > token {
		token += 1023
	}
	token = max(token, r.Fence.Token)
	of := r.Fence.Of
	if of == "" {
		of = Nobody
	}
	ahead := Time(max((token+1023)/1024-int64(r.Now.ms()/Millisecond), 0)) * Millisecond
	r.Fence = Fence{Token: token, Of: of, Ends: r.Now.ms() + lease + r.Memory + ahead}
	return true
}

// Force is force.lua: a lock is opened, unless a holder is not among some.
func (r *Run) Force(some []ID) int64 {
	has, _ := r.holder()
	switch {
	case r.Limit > 0:
		return r.permitForce(some)
	case has == "":
		return 0
	case r.Mode != "":
		return r.rwForce(some)
	}
	if len(some) > 0 && !contains(some, has) {
		return -1
	}
	r.Holders, r.Ends = nil, 0
	r.forget()
	r.tell(has.Session(), "lost", has)
	switch w := r.pass("", "", 0, ""); w.ID {
	case Redisson:
		r.leave("0")
	case "":
		r.dropPassed()
		r.wakeRedisson("0")
	}
	return 1
}

func contains(some []ID, id ID) bool {
	for _, other := range some {
		if other == id {
			return true
		}
	}
	return false
}
