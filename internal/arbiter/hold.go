package arbiter

import (
	"slices"
	"sync"
)

// An Owner is an identity that may hold locks and enter again those it holds.
// Owners are compared by address. A nil *Owner stands for an anonymous
// acquisition, which is an owner of its own and never enters again.
type Owner struct {
	Minter any // whatever minted the owner; not used here

	mu     sync.Mutex
	queued int // waiters of this owner in any queue; guarded by mu
}

func (o *Owner) count(d int) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.queued += d
	o.mu.Unlock()
}

func (o *Owner) hasQueued() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued > 0
}

// State is what became of a hold.
type State uint8

const (
	Live  State = iota // held
	Ended              // ended by its last unlock
	Lost               // ended before its last unlock
)

// Side is a side of a read-write lock.
type Side uint8

const (
	Write Side = iota // also every other lock
	Read
)

// A Hold is one owner's possession of one lock. Its methods are safe for
// concurrent use.
type Hold[L comparable] struct {
	Owner  *Owner // nil: anonymous
	Lease  L      // the acquisition from Redis that it rests on
	Token  int64  // fencing token
	Since  int64  // when it began, by the table's clock
	Passed bool   // came from another goroutine of this process, not from Redis
	side   Side
	state  State // guarded by mu

	// guarded by the name's shard
	count      int       // times locked less times unlocked
	owing      []debt[L] // unlocks that were counted for lost holds and may have been this one's
	next, prev *Hold[L]  // other read holds of the name

	mu   sync.Mutex     // protects the following, and state
	done chan struct{}  // made by the first Done
	ends []*func(State) // called at the end
}

// OnEnd has f called when the hold ends, or at once if it has. f is called with the
// name's shard locked: it must not block nor use the arbiter.
func (h *Hold[L]) OnEnd(f *func(State)) {
	h.mu.Lock()
	if h.state == Live {
		h.ends = append(h.ends, f)
		h.mu.Unlock()
		return
	}
	s := h.state
	h.mu.Unlock()
	(*f)(s)
}

// Forget takes one OnEnd of f back. If the hold ends at the same time f may still be
// called.
func (h *Hold[L]) Forget(f *func(State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.ends, f); i >= 0 {
		h.ends = slices.Delete(h.ends, i, i+1)
	}
}

// Watchers returns how many calls of OnEnd stand, for tests.
func (h *Hold[L]) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ends)
}

// Side returns the side of the lock that is held.
func (h *Hold[L]) Side() Side { return h.side }

// State tells whether the hold is live and, if not, how it ended.
func (h *Hold[L]) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// Done returns a channel that is closed when the hold ends.
func (h *Hold[L]) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != Live {
		return Closed
	}
	if h.done == nil {
		h.done = make(chan struct{})
	}
	return h.done
}

// End ends a live hold and reports whether it was live.
func (h *Hold[L]) End(s State) bool {
	h.mu.Lock()
	if h.state != Live {
		h.mu.Unlock()
		return false
	}
	h.state = s
	if h.done != nil {
		close(h.done)
	}
	ends := h.ends
	h.ends = nil
	h.mu.Unlock()
	for _, f := range ends {
		(*f)(s)
	}
	return true
}

// Closed is a channel that is always closed.
var Closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// A Handle is what one lock value remembers of the holds taken through it. It
// belongs to one name of one table. Its zero value belongs to none.
type Handle[L comparable] struct {
	name string
	mu   *sync.Mutex // of the name's shard; protects the following, but for shard

	latest *Hold[L]   // last hold taken through this handle
	anon   []*Hold[L] // of a read side: those of them that are anonymous, oldest first, ended ones among them
	open   []*Hold[L] // holds taken through it, oldest first, at least those whose last unlock is outstanding
	prune  int32      // length of open at which to drop the others
	shard  int32      // never changes
}

// Name returns the name of the lock.
func (v *Handle[L]) Name() string { return v.name }

// Valid reports whether the handle came from a table.
func (v *Handle[L]) Valid() bool { return v != nil && v.mu != nil }

// Latest returns the hold last taken through this handle, nil if there was none.
func (v *Handle[L]) Latest() *Hold[L] {
	if !v.Valid() {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest
}

// noteLocked remembers that h was taken through v.
func (v *Handle[L]) noteLocked(h *Hold[L]) {
	if v.latest == h {
		return
	}
	v.latest = h
	v.lastLocked() // drops those at the end that have been unlocked
	if len(v.open) >= int(v.prune) {
		v.pruneLocked()
		v.prune = int32(2*len(v.open) + 2)
	}
	v.open = append(v.open, h)
}

// pruneLocked drops from open what has been unlocked, and all but the last mention of
// what has not.
func (v *Handle[L]) pruneLocked() {
	if len(v.open) == 0 {
		return
	}
	seen := make(map[*Hold[L]]bool, len(v.open))
	slices.Reverse(v.open)
	v.open = slices.DeleteFunc(v.open, func(h *Hold[L]) bool {
		drop := h.count == 0 || seen[h]
		seen[h] = true
		return drop
	})
	slices.Reverse(v.open)
}

// lastLocked returns the newest hold taken through v that awaits an unlock.
func (v *Handle[L]) lastLocked() *Hold[L] {
	for n := len(v.open); n > 0; n = len(v.open) {
		if h := v.open[n-1]; h.count > 0 {
			return h
		}
		v.open[n-1] = nil
		v.open = v.open[:n-1]
	}
	return nil
}

// anonymousLocked returns the newest anonymous read hold taken through v that awaits an
// unlock.
func (v *Handle[L]) anonymousLocked() *Hold[L] {
	for n := len(v.anon); n > 0; n = len(v.anon) {
		if h := v.anon[n-1]; h.count > 0 {
			return h
		}
		v.anon[n-1] = nil
		v.anon = v.anon[:n-1]
	}
	return nil
}

// firstLostLocked returns the oldest lost hold taken through v that awaits an
// unlock, of anonymous owners only if so asked.
func (v *Handle[L]) firstLostLocked(anonymous bool) *Hold[L] {
	for _, h := range v.open {
		if h.count > 0 && (h.Owner == nil || !anonymous) && h.State() == Lost {
			return h
		}
	}
	return nil
}

// A record is what an entry of either kind of arbiter knows of holds that await an
// unlock after their loss. It is guarded by the shard.
type record[L comparable] struct {
	lost []*Hold[L]
}

// ownerless returns the hold that an unlock without an owner through via is for: last,
// unless one taken through via was lost: then the unlock may be that one's, and is
// counted as such, rather for an anonymous one than for an owner's.
func (r *record[L]) ownerless(via *Handle[L], last *Hold[L]) *Hold[L] {
	if len(r.lost) > 0 {
		h := via.firstLostLocked(true)
		if h == nil {
			h = via.firstLostLocked(false)
		}
		if h != nil {
			if last == h {
				return h
			}
			if h.Owner != nil {
				via.chargeLocked(last, h, debt[L]{h.Owner, via})
			}
			for n := len(h.owing); n >= h.count; n = len(h.owing) { // more than are left after this
				via.chargeLocked(last, h, h.owing[n-1])
				h.owing = h.owing[:n-1]
			}
			return h
		}
	}
	if last != nil && last.count == 1 {
		last.handOn()
	}
	return last
}

// A debt is an unlock without an owner that was counted for a lost hold of an owner and
// may have been another's, taken through the same handle.
type debt[L comparable] struct {
	to  *Owner
	via *Handle[L]
}

// handOn has others owe what h does, which is about to end: of each debt the unlock was
// that of a hold that was there before.
func (h *Hold[L]) handOn() {
	for _, d := range h.owing {
		next := d.via.beforeLocked(h, nil, true)
		if next == nil {
			next = d.via.beforeLocked(h, nil, false)
		}
		if next != nil {
			next.owing = append(next.owing, d)
		}
	}
	h.owing = nil
}

// owesAll reports whether a debt is owed for every unlock that h awaits.
func (h *Hold[L]) owesAll() bool { return len(h.owing) >= h.count }

// chargeLocked has last owe d, an unlock through v that may have been its own; or one
// that was there before, if last awaits no more unlocks than it owes already: each debt
// is to be settled by an unlock of its own. It is not the one that the unlock is counted
// for.
func (v *Handle[L]) chargeLocked(last, counted *Hold[L], d debt[L]) {
	if last.owesAll() {
		if h := v.beforeLocked(last, counted, true); h != nil {
			last = h
		}
	}
	last.owing = append(last.owing, d)
}

// beforeLocked returns the newest hold but one taken through v before h that awaits an
// unlock, and if so asked, more than it owes: an anonymous one if there is one.
func (v *Handle[L]) beforeLocked(h, but *Hold[L], more bool) (found *Hold[L]) {
	seen := false
	for _, next := range slices.Backward(v.open) {
		switch {
		case next == h:
			seen = true
		case !seen || next == but || next.count == 0 || more && next.owesAll():
		case next.Owner == nil:
			return next
		case found == nil:
			found = next
		}
	}
	return found
}

// of returns the newest lost hold of an owner on a side that awaits its unlock.
func (r *record[L]) of(o *Owner, side Side) *Hold[L] {
	for _, h := range slices.Backward(r.lost) {
		if o != nil && h.Owner == o && h.side == side {
			return h
		}
	}
	return nil
}

// drop forgets a lost hold whose last unlock has come.
func (r *record[L]) drop(h *Hold[L]) {
	r.lost = slices.DeleteFunc(r.lost, func(l *Hold[L]) bool { return l == h })
	if len(r.lost) == 0 {
		r.lost = nil
	}
}

// eligible reports whether w may have the lock now.
func (r *record[L]) eligible(w *Waiter[L]) bool { return r.admits(w.Via, w.Owner) }

// admits reports whether o may have the lock now. An anonymous call through a handle
// whose anonymous hold was lost waits for that hold's unlock: were it let in, the late
// unlock could not be told from its own.
func (r *record[L]) admits(via *Handle[L], o *Owner) bool {
	return o != nil || len(r.lost) == 0 || via.firstLostLocked(true) == nil
}

// owes reports whether h awaits an unlock because one was counted for a lost hold of
// o that may have been its own, and settles that.
func (h *Hold[L]) owes(o *Owner) bool {
	if h == nil || h.count == 0 {
		return false
	}
	i := slices.IndexFunc(h.owing, func(d debt[L]) bool { return d.to == o })
	if i >= 0 {
		h.owing = slices.Delete(h.owing, i, i+1)
	}
	return i >= 0
}
