package sim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock"
)

// check checks what happened, when it is over.
func (w *world) check() {
	for _, c := range w.calls {
		w.checkError(c)
		w.checkWait(c)
		w.checkTime(c)
	}
	for _, name := range w.plan.names {
		w.checkTokens(name)
		w.checkLinear(name)
	}
	if w.plan.enough > 0 {
		w.checkShares()
	} else {
		w.checkOrder()
	}
	w.checkCrowd()
}

// checkError checks that a Lock or TryLock fails only with a reason.
func (w *world) checkError(c *call) {
	switch {
	case c.err == nil && c.held, c.gone.seq != 0, c.p.gone.seq != 0:
		return
	case c.err == nil && c.op.try:
		if !w.mayBeTaken(c) {
			w.fail("TryLock finds a free lock free", "%v", c)
		}
		return
	case errors.Is(c.err, relock.ErrClosed) && c.p.closing, w.hinderedLocked(c, c.called.at, c.returned.at):
		return
	case c.nested && errors.Is(c.err, relock.ErrLost):
		return
	case errors.Is(c.err, context.DeadlineExceeded) && c.op.patience > 0 && !c.op.try && c.returned.at >= c.called.at+c.op.patience:
		return
	}
	for _, t := range w.troubles {
		after := 2 * time.Second
		if t.kind == dropReplies { // until that many commands were sent: of an idle process its label, every quarter of a lease
			after = c.p.lease
		}
		if t.concerns(c) && t.from <= c.returned.at && (t.to < 0 || t.to+after >= c.called.at) &&
			(c.op.try || t.kind == refuse && strings.Contains(c.err.Error(), t.text[:3])) {
			return
		}
	}
	w.fail("Lock fails only with a reason", "%v", c)
}

// mayBeTaken reports whether something may have been in the way of a TryLock.
func (w *world) mayBeTaken(c *call) bool {
	from := c.called.at - 10*w.slowest() - 50*time.Millisecond
	for _, d := range w.calls {
		if d != c && overlap(c, d) && d.called.at <= c.returned.at && w.gone(d) >= from {
			return true
		}
	}
	return w.troubledLocked(c, c.called.at, c.returned.at, w.plan.lease+20*time.Second)
}

// gone returns when nothing of a call was in the way of others: of one that failed amid trouble, or
// whose process vanished, a place may be left in the queue, which has its turn.
func (w *world) gone(c *call) time.Duration {
	// Its release takes two round trips, if the server does not know the script.
	if c.held || c.gone.seq == 0 && !w.troubledLocked(c, c.called.at, c.returned.at+4*w.slowest(), 0) {
		return w.freed(c)
	}
	end := max(c.gone.at, c.returned.at)
	at := end
	for _, d := range w.calls {
		if d.held && sameName(c, d) && d.called.at <= end { // it may have been before c in the queue
			at = max(at, d.last().at)
		}
	}
	return at + 10*time.Second
}

// slowest returns the longest delay of any process.
func (w *world) slowest() (d time.Duration) {
	for _, p := range w.plan.procs {
		d = max(d, p.delay)
	}
	return d
}

// freed returns when a call was no longer in the way of others.
func (w *world) freed(c *call) time.Duration {
	switch {
	case c.gone.seq != 0:
		return c.gone.at + max(w.plan.lease, 10*time.Second) // until its lease, or place in a queue, is over in Redis
	case c.returned.seq == 0 || c.held && c.last().seq == 0 || c.unlocking.seq != 0 && c.unlocked.seq == 0:
		return w.took
	case !c.held:
		return c.returned.at
	case c.lost.seq != 0:
		return c.lost.at + max(c.p.lease, c.op.lease)
	case w.troubledLocked(c, c.unlocking.at, c.unlocked.at, 0):
		return c.unlocked.at + max(c.p.lease, c.op.lease) // the release may not have reached Redis
	}
	return c.unlocked.at
}

// checkWait checks that a call does not wait for a lock that is free.
func (w *world) checkWait(c *call) {
	if c.op.try || c.returned.seq == 0 || c.p.gone.seq != 0 {
		return
	}
	free := c.called.at
	for _, d := range w.calls {
		if d == c || d.called.at > c.returned.at || !sameName(c, d) {
			continue
		}
		// What comes in between, and who may have had it for a moment.
		if d.returned.seq == 0 || d.returned.at <= c.returned.at || len(d.parts) > 1 || !c.held {
			free = max(free, min(w.freed(d), c.returned.at))
		}
	}
	vanished := time.Duration(0) // what waits in each costs a claim, if Redis does not notice
	for _, p := range w.procs {
		if p.gone.seq != 0 {
			vanished++
		}
	}
	bound := 500*time.Millisecond + 20*w.slowest()
	if c.parts[0].kind == redlock {
		bound += 5 * time.Second
	}
	for _, t := range w.troubles { // which may have left something that others wait for
		if t.from <= c.returned.at {
			free = max(free, t.to)
			bound = max(bound, w.plan.lease+max(1, vanished)*claim+w.steppedBack(0))
		}
	}
	if waited := c.returned.at - free; waited > bound {
		w.fail("no waiter sleeps when the lock is free", "%v since %v: %v", waited, free, c)
	}
}

// label is how long a call that has a lock waits for the session's label.
const label = 10 * time.Millisecond

// checkTime checks that Lock ends with its context, that TryLock does not wait, and that Unlock waits
// for Redis 2 s at most. rueidis may have to dial before, for 5 s at most, which a call that
// comes before the loss of the connection is known cannot leave.
func (w *world) checkTime(c *call) {
	unlock := 2 * time.Second
	if w.troubledLocked(c, 0, c.unlocked.at, 0) {
		unlock += 5 * time.Second
	}
	if took := c.unlocked.at - c.unlocking.at; c.unlocked.seq != 0 && took > unlock {
		w.fail("Unlock waits for Redis at most 2 s", "%v: %v", took, c)
	}
	took := c.returned.at - c.called.at
	switch {
	case c.returned.seq == 0 || c.p.gone.seq != 0:
	case !c.op.try:
		most := c.op.patience
		if c.held || len(c.parts) > 1 {
			most += label
		}
		if w.troubledLocked(c, 0, c.returned.at, 0) {
			most += 5 * time.Second
		}
		if c.op.patience > 0 && !c.nested && took > most {
			w.fail("Lock ends with its context", "%v late: %v", took-c.op.patience, c)
		}
	default:
		// A script that the server does not know takes two round trips, and so may one that ends it.
		most := time.Duration(len(c.parts))*(12*c.p.delay+time.Millisecond) + label
		if w.troubledLocked(c, c.called.at, c.returned.at, 5*time.Second) {
			most += 25 * time.Second // rueidis waits 5 s for a connection and 10 s for each reply
		}
		if took > most {
			w.fail("TryLock does not wait", "%v: %v", took, c)
		}
	}
}

// steppedBack returns by how much the servers' clocks stepped back since a time.
func (w *world) steppedBack(since time.Duration) (d time.Duration) {
	for _, t := range w.troubles {
		if t.kind == clockBack && t.from >= since {
			d += t.step
		}
	}
	return d
}

// checkTokens checks that tokens grow from each hold to the next.
func (w *world) checkTokens(name string) {
	type hold struct {
		*call
		token int64
	}
	var holds []hold
	for _, c := range w.calls {
		for i, token := range c.tokens {
			if p := c.parts[i]; p.name != name || p.kind == reader || p.kind == redlock {
				continue
			}
			if token <= 0 {
				w.fail("each hold has a token", "%v", c)
			}
			holds = append(holds, hold{c, token})
		}
	}
	for _, c := range holds {
		for _, d := range holds {
			// The exclusion of holds orders also calls that overlapped. One that was passed on in its process has
			// a token from the time of its grant.
			first := d.call
			if d.p != c.p {
				first = w.firstOf(first)
			}
			after := c.returned.seq < first.called.seq || c.returned.seq < first.returned.seq && !w.excusedLocked(c.call, first)
			if c.call == d.call || !after || c.token < d.token {
				if c.call != d.call && c.token == d.token {
					w.fail("tokens differ", "\n  %v\n  %v", c, d)
				}
				continue
			}
			if w.forgotten(c.called.at, d.returned.at) {
				continue
			}
			w.fail("tokens grow", "\n  %v\n  %v", c, d)
		}
	}
}

// forgotten reports whether a server may have forgotten, in a span, a token that is ahead of its clock:
// that has stepped back.
func (w *world) forgotten(from, to time.Duration) bool {
	within := func(from time.Duration, kinds ...faultKind) bool {
		return slices.ContainsFunc(w.troubles, func(t *trouble) bool {
			return t.from >= from && t.from <= to && slices.Contains(kinds, t.kind)
		})
	}
	return within(0, clockBack) && (to-from > time.Minute || within(from, restartEmpty, clockAhead, clockForward, evict, corrupt, damage))
}
