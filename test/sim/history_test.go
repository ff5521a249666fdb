package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock"
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
	lost             stamp
	gone             stamp // its process vanished while it was held

	lock     relock.Locker
	members  []member // of a Group, or the lock
	done     <-chan struct{}
	promised time.Time     // the latest deadline that was seen
	tokens   []int64       // of its parts; 0: it has none
	missing  time.Duration // since when Redis does not have it; 0: it has
	given    int           // how often its exclusion had been given up when it was called
}

func (c *call) String() string {
	s := fmt.Sprintf("#%-3d process %d actor %d: %v", c.id, c.p.id, c.actor, c.op) +
		said("reads as well now", c.nested, "called", c.called.at, "returned", c.returned.at, "with", c.err,
			"tokens", c.tokens, "lost", c.lost.at, "vanished", c.gone.at, "unlock", c.unlocking.at,
			"unlocked", c.unlocked.at, "with", c.unlockErr)
	if c.returned.seq != 0 && !c.held && c.err == nil {
		s += ", taken"
	}
	return s
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
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
	c.done = c.lock.Done()
	c.tokens = c.tokensOf()
	for _, other := range w.calls {
		if other != c && other.certain() && other.owner != c.owner && overlap(c, other) && !w.excusedLocked(c, other) {
			w.failLocked("certain holds never overlap", "\n  %v\n  %v", other, c)
		}
	}
	if closed(c.done) && !w.gaveUpLocked(c) && !c.p.closing {
		w.failLocked("a hold is certain when Lock returns", "%v", c)
	}
	w.sampleLocked(c)
	go w.follow(c)
}

// inheritsLocked reports whether the process may have passed on, or shared with c, a hold whose
// exclusion was given up.
func (w *world) inheritsLocked(c *call) bool {
	return slices.ContainsFunc(w.calls, func(d *call) bool {
		return d != c && d.p == c.p && d.held && (d.last().seq == 0 || d.last().seq > c.called.seq) &&
			sameName(c, d) && w.gaveUpLocked(d)
	})
}

func sameName(c, d *call) bool {
	return slices.ContainsFunc(c.parts, func(p part) bool {
		return slices.ContainsFunc(d.parts, func(q part) bool { return p.name == q.name })
	})
}

func overlap(c, d *call) bool {
	for _, p := range c.parts {
		for _, q := range d.parts {
			if p.excludes(q) {
				return true
			}
		}
	}
	return false
}

// excusedLocked reports whether exclusion was given up since one of the calls.
func (w *world) excusedLocked(c, d *call) bool {
	return w.gaveUpLocked(c) || w.gaveUpLocked(d)
}

// gaveUpLocked reports whether the exclusion of a call was given up since it began.
func (w *world) gaveUpLocked(c *call) bool {
	return w.givenLocked(c.parts) > c.given || w.steppedLocked(c)
}

// unlocking notes that Unlock is called next.
func (w *world) unlocking(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
	w.sampleLocked(c)
	c.unlocking = w.stampLocked()
}

func (w *world) unlocked(c *call, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
	c.unlocked, c.unlockErr = w.stampLocked(), err
	if c.lost.seq == 0 && c.gone.seq == 0 {
		w.freesLocked(c)
	}
	switch {
	case c.gone.seq != 0:
	case err != nil && !errors.Is(err, relock.ErrLost):
		if w.hinderedLocked(c, c.unlocking.at, c.unlocked.at) {
			break // it says what is wrong
		}
		w.failLocked("Unlock returns nil or ErrLost", "%v", c)
	case err == nil && c.lost.seq != 0:
		w.failLocked("Unlock tells of a loss", "%v", c)
	case err != nil && c.lost.seq == 0 && !w.mayBeLostLocked(c):
		w.failLocked("nothing is lost falsely", "%v", c)
	case err == nil && !c.promised.IsZero() && !w.start.Add(c.unlocking.at).Before(c.promised):
		w.failLocked("Unlock tells of a loss", "by the deadline: %v", c)
	}
}

// vanishLocked ends what a process holds, or releases: nobody sees it any more.
func (w *world) vanishLocked(p *process) {
	p.gone = w.stampLocked()
	for _, c := range w.calls {
		if c.p == p && (c.certain() || c.returned.seq == 0 || c.held && c.unlocking.seq != 0 && c.unlocked.seq == 0) {
			c.gone = p.gone
		}
	}
}

// sweepLocked notes which holds have been lost, before anything else is noted.
func (w *world) sweepLocked() {
	for _, c := range w.calls {
		if !c.certain() {
			continue
		}
		select {
		case <-c.done:
		default:
			continue
		}
		c.lost = w.stampLocked()
		if err := c.lock.Err(); !errors.Is(err, relock.ErrLost) {
			w.failLocked("Err tells of a loss", "%v: %v", err, c)
		}
		if !w.mayBeLostLocked(c) {
			w.failLocked("nothing is lost falsely", "the deadline was %v: %v", c.promised.Sub(w.start), c)
		}
	}
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
	return slices.ContainsFunc(w.troubles, func(t *trouble) bool {
		return (t.kind == damage || t.kind == forbid) && t.concerns(c) && t.from <= to && (t.to < 0 || t.to+2*time.Second >= from)
	})
}

// troubledLocked reports whether something that concerns the call was wrong in a span, or
// within some time before it.
func (w *world) troubledLocked(c *call, from, to, before time.Duration) bool {
	return slices.ContainsFunc(w.troubles, func(t *trouble) bool {
		return t.from <= to && (t.to < 0 || t.to+before >= from) && t.concerns(c)
	})
}
