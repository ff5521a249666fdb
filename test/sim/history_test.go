package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// A stamp is when an event happened: the time of the world, and the event's number. The number of
// what has not happened is 0.
type stamp struct {
	at  time.Duration
	seq int64
}

// A call is a Lock or TryLock, and the hold that it gave. The world's mutex guards it.
type call struct {
	id, actor int
	op        *op
	p         *process
	parts     []part
	owner     int // a call of the same owner does not exclude it
	nested    bool

	called, returned stamp
	err              error
	held             bool // it gave a hold
	unlocking        stamp
	unlocked         stamp
	unlockErr        error
	kept             time.Duration // by a ticket that nobody has adopted
	lost             stamp
	gone             stamp // its process vanished while it was held

	lock     relock.Locker
	done     <-chan struct{}
	ends     <-chan struct{} // done, or nil if its section does not heed that
	promised time.Time       // the latest deadline that was seen
	tokens   []int64         // of its parts; 0: it has none
	missing  time.Duration   // since when Redis does not have it; 0: it has
	given    int             // how often its exclusion had been given up when it was called
}

func (c *call) String() string {
	o := c.op
	return fmt.Sprintf("#%-3d process %d actor %d: %v, try %v, owned %v, re-enters %v, reads as well %v, reads as well now %v, "+
		"acquires %v, hands off %v, patience %v, section %v, lease %v, fixed lease %v, max hold %v, keep %v, called %v, returned %v with %v, held %v, tokens %v, "+
		"lost %v, vanished %v, unlock %v, unlocked %v with %v", c.id, c.p.id, c.actor, c.parts, o.try, o.owned, o.reenter, o.reads,
		c.nested, o.acquires, o.handsOff, o.patience, o.section, o.lease, o.fixed, o.maxHold, o.keep, c.called.at, c.returned.at, c.err, c.held, c.tokens,
		c.lost.at, c.gone.at, c.unlocking.at, c.unlocked.at, c.unlockErr)
}

// certain reports whether the call's hold counts now.
func (c *call) certain() bool {
	return c.held && c.unlocking.seq == 0 && c.lost.seq == 0 && c.gone.seq == 0
}

// last returns when the call's hold ended for its holder, if it had one.
func (c *call) last() stamp {
	first := stamp{}
	for _, s := range []stamp{c.lost, c.gone, c.unlocking} {
		if s.seq != 0 && (first.seq == 0 || s.seq < first.seq) {
			first = s
		}
	}
	return first
}

func (w *world) stampLocked() stamp {
	w.seq++
	return stamp{w.now(), w.seq}
}

// givenLocked returns how often the exclusion of a call's locks was given up.
func (w *world) givenLocked(parts []part) (n int) {
	for _, p := range parts {
		n += w.given[p.name]
	}
	return n
}

func (w *world) calling(c *call) {
	defer w.sweep()()
	c.id = len(w.calls)
	if c.owner == 0 {
		w.owners++
		c.owner = w.owners
	}
	c.given = w.givenLocked(c.parts)
	w.calls = append(w.calls, c)
	c.called = w.stampLocked()
}

// returned notes the end of a Lock or TryLock, and checks that no other hold is certain.
func (w *world) returned(c *call, held bool, err error) {
	defer w.sweep()()
	c.returned = w.stampLocked()
	if c.p.gone.seq != 0 {
		return // nobody sees it
	}
	c.held, c.err = held, err
	if !held {
		return
	}
	w.holds++
	if w.inheritsLocked(c) {
		c.given = -1
	}
	if c.done = c.lock.Done(); c.op.heeds {
		c.ends = c.done
	}
	hold := c.hold()
	for i := range c.parts {
		if members := hold.Members(); members != nil {
			c.tokens = append(c.tokens, members[i].Token())
		} else {
			c.tokens = append(c.tokens, hold.Token())
		}
	}
	for _, other := range w.calls {
		if other != c && other.certain() && other.owner != c.owner && overlap(c, other) &&
			!w.gaveUpLocked(c) && !w.gaveUpLocked(other) {
			w.fail("certain holds never overlap", "\n  %v\n  %v", other, c)
		}
	}
	if kit.IsClosed(c.done) && !w.gaveUpLocked(c) && !c.p.closing {
		w.fail("a hold is certain when Lock returns", "%v", c)
	}
	w.sampleLocked(c)
	w.recorders[0].begins(c)
	go w.follow(c)
}

// endsLocked notes that a hold is not certain any more.
func (w *world) endsLocked(c *call) {
	w.recorders[0].ends(c)
}

// inheritsLocked reports whether the process may have passed on, kept for c or shared with it, a hold whose
// exclusion was given up.
func (w *world) inheritsLocked(c *call) bool {
	return slices.ContainsFunc(w.calls, func(d *call) bool {
		kept := d.unlocked.seq != 0 && c.called.at <= d.unlocked.at+d.op.keep
		return d != c && d.p == c.p && d.held && (d.last().seq == 0 || d.last().seq > c.called.seq || kept) &&
			sameName(c, d) && w.gaveUpLocked(d)
	})
}

func sameName(c, d *call) bool {
	return slices.ContainsFunc(c.parts, func(p part) bool {
		return slices.ContainsFunc(d.parts, func(q part) bool { return p.name == q.name })
	})
}

func overlap(c, d *call) bool {
	return slices.ContainsFunc(c.parts, func(p part) bool { return slices.ContainsFunc(d.parts, p.excludes) })
}

// gaveUpLocked reports whether the exclusion of a call was given up since it began.
func (w *world) gaveUpLocked(c *call) bool {
	return w.givenLocked(c.parts) > c.given || w.steppedLocked(c)
}

// unlocking notes that Unlock is called next.
func (w *world) unlocking(c *call) {
	defer w.sweep()()
	w.sampleLocked(c)
	c.unlocking = w.stampLocked()
	w.endsLocked(c)
}

func (w *world) unlocked(c *call, err error) {
	defer w.sweep()()
	c.unlocked, c.unlockErr = w.stampLocked(), err
	if c.lost.seq == 0 && c.gone.seq == 0 && c.kept == 0 {
		w.freesLocked(c)
	}
	switch {
	case c.gone.seq != 0 || c.p.gone.seq != 0: // nobody sees it
	case err != nil && !errors.Is(err, relock.ErrLost):
		if w.hinderedLocked(c, c.unlocking.at, c.unlocked.at) || c.op.handsOff && (c.p.closing || w.refusedLocked(c, err)) {
			break // it says what is wrong
		}
		w.fail("Unlock returns nil or ErrLost", "%v", c)
	case err == nil && c.lost.seq != 0:
		w.fail("Unlock tells of a loss", "%v", c)
	case err != nil && c.lost.seq == 0 && !w.mayBeLostLocked(c):
		w.fail("nothing is lost falsely", "%v", c)
	case err == nil && !c.promised.IsZero() && !w.start.Add(c.unlocking.at).Before(c.promised):
		w.fail("Unlock tells of a loss", "by the deadline: %v", c)
	}
}

// vanishLocked ends what a process holds, or releases: nobody sees it any more.
func (w *world) vanishLocked(p *process) {
	if p.gone.seq != 0 {
		return
	}
	p.gone = w.stampLocked()
	for _, c := range w.calls {
		if c.p == p && (c.certain() || c.returned.seq == 0 || c.held && c.unlocking.seq != 0 && c.unlocked.seq == 0) {
			c.gone = p.gone
			w.endsLocked(c)
		}
	}
}

// sweep locks the world and notes which holds have been lost, before anything else is noted.
func (w *world) sweep() (unlock func()) {
	w.mu.Lock()
	for _, c := range w.calls {
		if !c.certain() || !kit.IsClosed(c.done) {
			continue
		}
		c.lost = w.stampLocked()
		w.endsLocked(c)
		if err := c.lock.Err(); !errors.Is(err, relock.ErrLost) {
			w.fail("Err tells of a loss", "%v: %v", err, c)
		}
		if !w.mayBeLostLocked(c) {
			w.fail("nothing is lost falsely", "the deadline was %v: %v", c.promised.Sub(w.start), c)
		}
	}
	return w.mu.Unlock
}

// mayBeLostLocked reports whether a hold may be lost now.
func (w *world) mayBeLostLocked(c *call) bool {
	if c.p.closing || c.p.gone.seq != 0 || w.gaveUpLocked(c) {
		return true
	}
	if time.Until(c.promised) > 2*time.Millisecond {
		return false
	}
	if c.op.fixed != 0 || c.op.maxHold != 0 {
		return true
	}
	return w.troubledLocked(c, c.called.at, w.now(), w.plan.lease) && !w.brieflyAwayLocked(c)
}

// hinderedLocked reports whether scripts may have been refused for one of the call's locks in a span.
func (w *world) hinderedLocked(c *call, from, to time.Duration) bool {
	return w.troubledLocked(c, from, to, 2*time.Second, damage, forbid)
}

// refusedLocked reports whether a handoff may have been refused with err for good, as a Lock would be.
func (w *world) refusedLocked(c *call, err error) bool {
	return strings.Contains(err.Error(), "OOM") && w.troubledLocked(c, c.unlocking.at, c.unlocked.at, 0, refuse)
}

// troubledLocked reports whether something that concerns the call, of some kinds if there are any, was wrong in a span,
// or within some time before it.
func (w *world) troubledLocked(c *call, from, to, before time.Duration, kinds ...faultKind) bool {
	return slices.ContainsFunc(w.troubles, func(t *trouble) bool {
		return (len(kinds) == 0 || slices.Contains(kinds, t.kind)) && t.concerns(c) && t.during(from, to, before)
	})
}

// sampling is the interval between two looks at all holds.
const sampling = 237 * time.Millisecond

// follow watches a hold until it ends, and checks that a loss is told by its deadline.
func (w *world) follow(c *call) {
	for {
		unlock := w.sweep()
		w.sampleLocked(c)
		left, certain := time.Until(c.promised), c.certain()
		if certain && left <= 0 {
			w.fail("a loss is told by the deadline", "%v: %v", c.promised.Sub(w.start), c)
			certain = false
		}
		unlock()
		if !certain {
			return
		}
		select {
		case <-c.done:
		case <-time.After(left):
		}
	}
}

// watch looks at all holds now and then.
func (w *world) watch() {
	for w.pause(sampling) {
		unlock := w.sweep()
		for _, c := range w.calls {
			w.sampleLocked(c)
		}
		unlock()
	}
}

// sampleLocked notes the deadline of a certain hold, and checks that Redis has the hold for as
// long.
func (w *world) sampleLocked(c *call) {
	if !c.certain() {
		return
	}
	deadline, ok := c.hold().Deadline()
	if !ok {
		return // it has just ended
	}
	if deadline.After(c.promised) {
		c.promised = deadline
	}
	w.missedLocked(c)
	left := time.Until(deadline)
	if left <= 0 || w.gaveUpLocked(c) || c.p.closing {
		return
	}
	for _, p := range c.parts {
		have := 0
		var ttl time.Duration
		sessions := c.p.s
		if p.kind != redlock {
			sessions = sessions[:1]
		}
		for i, s := range sessions {
			// Clocks may have stepped in the lease of another call of the process, which began it.
			if l, ok := leaseOf(w.servers[i], p.name, s); ok && l+w.stepped(clockForward, c.called.at-w.plan.lease) >= left {
				have++
			} else {
				ttl = l
			}
		}
		if have < len(sessions)/2+1 {
			w.fail("Redis has what is certain", "%v left, in Redis %v of %s: %v", left, ttl, p.name, c)
			c.promised = deadline
		}
	}
}

// missedLocked checks that a hold that Redis does not have any more is lost within a lease: no
// renewal of it can succeed.
func (w *world) missedLocked(c *call) {
	most := max(c.p.lease, c.op.lease)
	for _, p := range c.parts {
		if p.kind == redlock {
			return
		}
		if _, ok := leaseOf(w.servers[0], p.name, c.p.s[0]); !ok {
			if c.missing == 0 {
				c.missing = w.now()
			} else if d := w.now() - c.missing; d > most {
				w.fail("what Redis lost is lost within a lease", "after %v: %v", d, c)
				c.missing = w.now()
			}
			return
		}
	}
	c.missing = 0
}

// leaseOf returns how long a server keeps a lock for a session, if it does.
func leaseOf(server *memredis.Server, name string, s *relock.Session) (time.Duration, bool) {
	left, ok := server.TTL(name)
	if !ok {
		return 0, false
	}
	fields, _ := server.Mini.HKeys(name)
	return left, slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, s.ID()+":") })
}

// remembered returns what sessions remember of their locks, empty if it is nothing.
func (w *world) remembered() string {
	for _, p := range w.procs {
		if p.gone.seq != 0 || p.closing {
			continue
		}
		for _, s := range p.s {
			for _, name := range w.plan.names {
				if n := peek.Queued(s, name); n > 0 {
					return fmt.Sprintf("%d calls of process %d wait for %s", n, p.id, name)
				}
			}
			if peek.KnowsRW(s) {
				return fmt.Sprintf("process %d remembers an RWMutex", p.id)
			}
		}
	}
	return ""
}
