package spec

import (
	"cmp"
	"slices"
)

// The scripts of a Semaphore, with permits.lua. The key expires with the last lease. A holder whose
// lease has ended counts until a script that gives permits has removed it.

// count is count of permits.lua: holders whose lease has ended go. It returns their sessions, and
// whether the key is gone, perhaps with leases.
func (r *Run) count() (ended []string, gone bool) {
	gone = r.Limit == 0
	r.Holders = slices.DeleteFunc(r.Holders, func(h Holder) bool {
		over := h.Ends < r.Now.ms()
		if over && h.Rests {
			ended = append(ended, "-"+h.ID.Session())
		} else if over {
			ended = append(ended, h.ID.Session())
		}
		return over
	})
	return ended, gone
}

// permit returns the place of a hold that was not released.
func (r *Run) permit(id ID) int {
	return slices.IndexFunc(r.Holders, func(h Holder) bool { return h.ID == id && !h.Rests })
}

// take is take of permits.lua: a permit, with the lowest free slot.
func (r *Run) take(id ID, limit int, lease Time, of ID) (token int64, slot int) {
	token, _ = r.issue(of, lease)
	taken := func(h Holder) bool { return h.Slot == slot }
	for slices.ContainsFunc(r.Holders, taken) && r.Bug != SlotsShared {
		slot++
	}
	r.Holders = append(r.Holders, Holder{ID: id, Slot: slot, Ends: r.Now.ms() + lease})
	r.Limit = limit
	r.expire()
	return token, slot
}

// expire is expire of permits.lua: the key ends with the last lease.
func (r *Run) expire() {
	r.Ends = 0
	for _, h := range r.Holders {
		r.Ends = max(r.Ends, h.Ends)
	}
}

// fill is fill of permits.lua: permits go to the entries of the queue while the first that is there
// may have one. Holders whose lease has ended lose their entries as well.
func (r *Run) fill(
	ended []string, gone bool, asks ID, lease Time, of ID,
) (token int64, slot int, more bool) {
	if gone {
		r.lapsed()
	}
	for _, session := range ended {
		if session != r.Session {
			r.dropSession(session)
		}
	}
	for given := 0; ; given++ {
		w := r.next()
		r.dropPassed()
		switch {
		case w.ID == "" || len(r.Holders) >= w.Limit:
			return token, slot, more
		case given == 100:
			r.tell(w.ID.Session(), "poll", w.ID)
			return token, slot, more
		}
		r.Queue.remove(w.ID)
		if w.ID == asks {
			more = w.more
			token, slot = r.take(w.ID, w.Limit, lease, of)
			continue
		}
		its, at := r.take(w.ID, w.Limit, w.Grant, w.ID)
		r.Out = append(r.Out, Message{
			To: w.ID.Session(), Verb: "granted", ID: w.ID,
			Grant: Grant{Token: its, Term: w.Grant, More: w.more, Slot: at},
		})
	}
}

// member is the member of the sorted set that has the end of a holder's lease.
func (h *Holder) member() ID {
	if h.Rests {
		return "-" + h.ID
	}
	return h.ID
}

// byEnd returns the holders in order of the ends of their leases.
func (r *Run) byEnd() []Holder {
	return slices.SortedFunc(slices.Values(r.Holders), func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Ends, b.Ends), cmp.Compare(a.member(), b.member()))
	})
}

// permitWaits is waitFor of permits.lua: after how long a permit may be free.
func (r *Run) permitWaits(score Time) Reply {
	if len(r.Holders) == 0 {
		return waits(Second, score, false)
	}
	return waits(max(r.byEnd()[0].Ends-r.Now.ms(), 0), score, false)
}

// wantPermits is wantPermits of permits.lua.
func (r *Run) wantPermits() {
	told := map[string]bool{}
	for i, h := range r.byEnd() {
		id := h.member()
		if i < 100 && !told[id.Session()] {
			r.want(id)
		}
		told[id.Session()] = true
	}
}

// PermitAcquire is permit_acquire.lua.
func (r *Run) PermitAcquire(a Ask) Reply {
	ended, gone := r.count()
	if i := r.permit(a.ID); i >= 0 {
		token, _ := r.issue(a.of(), a.Lease)
		h := &r.Holders[i]
		h.Ends = max(h.Ends, r.Now.ms()+a.Lease)
		slot := int64(h.Slot)
		r.expire()
		return holds(token, a.Lease, false, slot)
	}
	free := func() bool { return len(r.Queue.Entries) == 0 && len(r.Holders) < a.Entry.Limit }
	if free() {
		token, slot := r.take(a.ID, a.Entry.Limit, a.Lease, a.of())
		return holds(token, a.Lease, false, int64(slot))
	}
	score, first, asks := a.Entry.Score, false, ID("")
	if a.Queue {
		score, first = r.arrive(&r.Queue, a.Entry)
		asks = a.Entry.ID
	}
	token, slot, more := r.fill(ended, gone, asks, a.Lease, a.of())
	if token == 0 && !a.Queue && free() {
		token, slot = r.take(a.ID, a.Entry.Limit, a.Lease, a.of())
	}
	if token != 0 {
		return holds(token, a.Lease, more, int64(slot))
	}
	if a.Queue {
		r.keepAlive(a.Entry)
	}
	if first {
		r.wantPermits()
	}
	return r.permitWaits(score)
}

// keepAlive is keepAlive of permits.lua: the queue is to outlive the next poll of an entry.
func (r *Run) keepAlive(e Entry) {
	if len(r.Holders) >= e.Limit || r.Queue.Index(e.ID) == 0 {
		r.Queue.Ends = r.Now.ms() + r.QueueLives
	}
}

// PermitPoll is permit_poll.lua for one waiter.
func (r *Run) PermitPoll(e Entry) (reply Reply, theirs bool) {
	if i := r.permit(e.ID); i >= 0 {
		h := r.Holders[i]
		left := h.Ends - r.Now.ms()
		if left <= 0 {
			return Reply{N: Gone}, false
		}
		token, _ := r.issue(e.ID, left)
		return holds(token, left, false, int64(h.Slot)), false
	}
	i := r.Queue.Index(e.ID)
	if i < 0 {
		return Reply{N: Gone}, false
	}
	e = r.Queue.Entries[i]
	ended, gone := r.count()
	token, slot, more := r.fill(ended, gone, e.ID, e.Grant, e.ID)
	if token != 0 {
		return holds(token, e.Grant, more, int64(slot)), false
	}
	r.keepAlive(e)
	r.wantPermits()
	return r.permitWaits(e.Score), false
}

// PermitRelease is permit_release.lua.
func (r *Run) PermitRelease(id ID, rest Time) int64 {
	gone := r.Limit == 0
	i := r.permit(id)
	switch {
	case i >= 0 && rest != 0: // under another name, which nobody renews
		r.Holders[i].Rests, r.Holders[i].Ends = true, r.Now.ms()+rest
		r.expire()
		r.wakeFirst(&r.Queue)
		return 0
	case i >= 0:
		r.Holders = slices.Delete(r.Holders, i, i+1)
		if len(r.Queue.Entries) == 0 {
			r.emptied()
			return 0
		}
	default:
		at := r.Queue.Index(id)
		if at < 0 {
			return -1
		}
		r.Queue.remove(id)
		if at > 0 {
			return 0
		}
	}
	ended, _ := r.count()
	r.fill(ended, gone, "", 0, "")
	if len(r.Holders) == 0 {
		r.emptied()
		r.forget()
	}
	return 0
}

// emptied ends the key if nobody holds a permit.
func (r *Run) emptied() {
	if len(r.Holders) == 0 {
		r.Limit, r.Ends = 0, 0
	}
}

// PermitRenew is permit_renew.lua for one hold.
func (r *Run) PermitRenew(id ID, lease Time, ends bool) bool {
	i := r.permit(id)
	if i < 0 {
		return false
	}
	r.Holders[i].Ends = r.Now.ms() + lease
	r.Ends = max(r.Ends, r.Now.ms()+lease)
	r.renewFence(lease, ends)
	return true
}

// permitForce is force.lua for a semaphore: the permits of some hold ids end, all if there are none.
func (r *Run) permitForce(some []ID) (forced int64) {
	r.Holders = slices.DeleteFunc(r.Holders, func(h Holder) bool {
		if len(some) > 0 && !contains(some, h.ID) {
			return false
		}
		forced = 1
		if !h.Rests {
			r.tell(h.ID.Session(), "lost", h.ID)
		}
		return true
	})
	r.emptied()
	if forced == 1 {
		r.wakeFirst(&r.Queue)
	}
	return forced
}
