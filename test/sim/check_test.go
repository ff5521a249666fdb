package sim_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/relock-go/relock"
)

// check checks what happened, when it is over.
func (w *world) check() {
	w.checkTraces()
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
		if t.concerns(c) && t.during(c.called.at, c.returned.at, 2*time.Second) &&
			(c.op.try || t.kind == refuse && strings.Contains(c.err.Error(), t.text[:3])) {
			return
		}
	}
	w.fail("Lock fails only with a reason", "%v", c)
}

// mayBeTaken reports whether something may have been in the way of a TryLock.
func (w *world) mayBeTaken(c *call) bool {
	from := c.called.at - 10*w.plan.slowest - 50*time.Millisecond
	for _, d := range w.calls {
		if d != c && overlap(c, d) && d.called.at <= c.returned.at && w.gone(d) >= from {
			return true
		}
		// It may be kept. A TryLock without WithKeep does not ask for it, and the first message that
		// asks a process is lost.
		if d != c && d.op.keep > 0 && d.held && overlap(c, d) && d.called.at <= c.returned.at {
			if c.op.keep == 0 || !w.asked[d.p] {
				w.asked[d.p] = w.asked[d.p] || c.op.keep > 0
				return true
			}
		}
	}
	return w.troubledLocked(c, c.called.at, c.returned.at, w.plan.lease+20*time.Second)
}

// gone returns when nothing of a call was in the way of others: of one that failed amid trouble, or
// whose process vanished, a place may be left in the queue, which has its turn.
func (w *world) gone(c *call) time.Duration {
	// Its release takes two round trips, if the server does not know the script.
	if c.held || c.gone.seq == 0 && !w.troubledLocked(c, c.called.at, c.returned.at+4*w.plan.slowest, 0) {
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
		return c.unlocked.at + max(c.p.lease, c.op.lease, c.kept) // the release may not have reached Redis
	case c.op.keep > 0 && c.p.gone.seq != 0 && c.p.gone.at <= c.unlocked.at+c.op.keep:
		return c.p.gone.at + max(c.p.lease, c.op.lease) // the process was gone while it kept the lock
	}
	return c.unlocked.at + c.kept
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
	vanished := time.Duration(0) // what waits in each costs a grant timeout, if Redis does not notice
	for _, p := range w.procs {
		if p.gone.seq != 0 {
			vanished++
		}
	}
	bound := 500*time.Millisecond + 20*w.plan.slowest
	if w.plan.keeps { // the message that recalls a lock may be lost
		bound += 2 * time.Second
	}
	if c.parts[0].kind == redlock {
		bound += 5 * time.Second
	}
	left := time.Duration(0) // for how long others wait for what troubles have left
	for _, t := range w.troubles {
		if t.from <= c.returned.at {
			free = max(free, t.to)
			left = w.plan.lease + max(1, vanished)*grantTimeout + w.stepped(clockBack, 0)
		}
	}
	if waited := c.returned.at - free; waited > bound+left { // the round trips come on top
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
	if took := c.unlocked.at - c.unlocking.at; c.unlocked.seq != 0 && took > unlock && !c.op.handsOff {
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
		if c.op.keep > 0 { // it asks, and waits for an answer
			most += 250 * time.Millisecond
		}
		if w.troubledLocked(c, c.called.at, c.returned.at, 5*time.Second) {
			most += 25 * time.Second // rueidis waits 5 s for a connection and 10 s for each reply
		}
		if took > most {
			w.fail("TryLock does not wait", "%v: %v", took, c)
		}
	}
}

// stepped returns by how much the servers' clocks stepped, back or forward, since a time.
func (w *world) stepped(kind faultKind, since time.Duration) (d time.Duration) {
	for _, t := range w.troubles {
		if t.kind == kind && t.from >= since {
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
			if p := c.parts[i]; p.name != name || p.kind == reader {
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
			// The exclusion of holds orders also calls that overlapped. One that was passed on in its process, or
			// kept there though Redis has lost it, has a token from the time of its grant.
			first := d.call
			if d.p != c.p || w.gaveUpLocked(first) {
				first = w.firstOf(first)
			}
			after := c.returned.seq < first.called.seq ||
				c.returned.seq < first.returned.seq && !w.gaveUpLocked(c.call) && !w.gaveUpLocked(first)
			switch {
			case c.call == d.call || c.token < d.token:
			case !after && c.token == d.token:
				w.fail("tokens differ", "\n  %v\n  %v", c, d)
			case after && !w.forgotten(name, c.called.at, d.returned.at, restartEmpty, clockAhead, clockForward, evict, corrupt, damage):
				w.fail("tokens grow", "\n  %v\n  %v", c, d)
			}
		}
	}
}

// forgotten reports whether a server may have forgotten, in a span, by time or one of the faults, a token that is ahead
// of its clock: that has stepped back, or is behind another server's.
func (w *world) forgotten(name string, from, to time.Duration, by ...faultKind) bool {
	within := func(from time.Duration, kinds ...faultKind) bool {
		return slices.ContainsFunc(w.troubles, func(t *trouble) bool {
			return t.from >= from && t.from <= to && slices.Contains(kinds, t.kind)
		})
	}
	differ := name == "red" && within(0, clockAhead, clockForward)
	return within(0, clockBack) && to-from > time.Minute || (differ || within(0, clockBack)) && within(from, by...)
}

// overtakes is how often a waiter is overtaken at most by calls that came later, in a world where
// nothing is wrong: nobody starves.
const overtakes = 12

// checkOrder checks who came first, of locks that have seen no fault.
func (w *world) checkOrder() {
	for _, c := range w.calls {
		if !c.queues() || !w.isCalm(c.parts[0].name) {
			continue
		}
		n := 0
		for _, d := range w.calls {
			if !d.queues() || d.parts[0].name != c.parts[0].name || d.returned.seq > c.returned.seq || !before(c, d) {
				continue
			}
			n++ // d came later and was first
		}
		w.checkArrival(c)
		if n > overtakes && c.parts[0].kind != redlock {
			w.fail("nobody starves", "%d came later and were before %v", n, c)
		}
		w.checkPhases(c)
	}
}

// checkArrival checks that the places of c's lock were served in order of arrival. Calls of a Mutex share
// the place of their process.
func (w *world) checkArrival(c *call) {
	if c.parts[0].kind != fair && c.parts[0].kind != mutex {
		return
	}
	if slices.ContainsFunc(w.sharing(c), func(d *call) bool { return len(d.parts) > 1 }) {
		return // the Group may have had the lock, and given it back
	}
	latest := w.latest(c)
	for _, d := range w.calls {
		k := d.parts[0].kind
		if !d.queues() || k != fair && k != mutex || !sameName(c, d) || d.returned.seq > c.returned.seq ||
			d.p == c.p && k == mutex && c.parts[0].kind == mutex {
			continue
		}
		earliest := d.called.at
		for e := d; e != nil; e = w.passedBy(e) {
			if earliest = min(earliest, w.arrived(e)); e.nested && e.op.handsOff {
				earliest = 0 // it has adopted the lock, and does not queue
			}
		}
		if latest < earliest+d.p.delay {
			w.fail("places are served in order of arrival", "\n  %v\n  %v", c, d)
		}
	}
}

// arrived returns when the place of a call was taken, at the earliest: it may be that of another call
// of its process, which may have had it from a third one.
func (w *world) arrived(c *call) time.Duration {
	at := c.called.at
	for before := at; ; before = at {
		for _, d := range w.calls {
			if mayShare(c, d) && d.called.at < before && w.freed(d) >= before {
				at = min(at, d.called.at)
			}
		}
		if at == before {
			return at
		}
	}
}

// sharing returns the other calls of a process that may share a call's place.
func (w *world) sharing(c *call) (others []*call) {
	for _, d := range w.calls {
		if mayShare(c, d) && overlap(c, d) {
			others = append(others, d)
		}
	}
	return others
}

// mayShare reports whether d is another call of c's process for its lock, whose place c may have.
func mayShare(c, d *call) bool {
	k := c.parts[0].kind
	return d != c && d.p == c.p && sameName(c, d) &&
		(k == mutex && d.parts[0].kind != fair || k == writer && d.parts[0].kind == writer)
}

// latest returns when a call had a place in Redis at the latest: it may have waited in its process for
// another one. If Redis may have been late to end that one's hold, that was still before c had the lock.
func (w *world) latest(c *call) time.Duration {
	latest := came(c)
	for _, d := range w.sharing(c) {
		end := w.freed(d)
		if d.lost.seq != 0 {
			end = d.lost.at
		}
		if had := d.held && d.returned.seq < c.returned.seq; end >= c.called.at && (had || end <= c.returned.at) {
			latest = max(latest, min(end, c.returned.at)+came(c)-c.called.at)
		}
	}
	return latest
}

// queues reports whether a call waited and then had a lock of its own.
func (c *call) queues() bool { return c.held && !c.op.try && !c.nested && len(c.parts) == 1 }

// checkPhases checks that a reader waits for one writer at most, not counting those whose lease
// expired, and that readers that come while a writer waits do not join those that read. A reader that gives up takes
// the place of those behind it in its process with it.
func (w *world) checkPhases(c *call) {
	switch c.parts[0].kind {
	case reader:
		placed := came(c)
		for _, d := range w.calls {
			if d.p == c.p && d.parts[0].kind == reader && sameName(c, d) && !d.held && d.called.seq < c.called.seq && d.returned.seq > c.called.seq {
				placed = max(placed, d.returned.at+came(c)-c.called.at)
			}
		}
		turns := make(map[int64]bool)
		for _, d := range w.calls {
			if d.held && d.lost.seq == 0 && d.parts[0].kind == writer && placed < d.returned.at && d.returned.seq < c.returned.seq {
				turns[w.firstOf(d).tokens[0]] = true // which its process may pass on for a tenure
			}
		}
		if len(turns) > 1 {
			w.fail("a reader waits for one writer at most", "%d before %v", len(turns), c)
		}
	case writer:
		latest := w.latest(c)
		for _, d := range w.calls {
			if !d.queues() || d.parts[0].kind != reader || d.returned.seq > c.returned.seq {
				continue
			}
			// A reader may join others of its process for a tenure, and is let in with one that waits.
			called := d.called.at
			for _, e := range w.calls {
				if e.p == d.p && e.held && e.parts[0] == d.parts[0] && e.returned.at == d.returned.at {
					called = min(called, e.called.at)
				}
			}
			if latest+d.p.tenure < called &&
				!slices.ContainsFunc(w.calls, func(v *call) bool { // the readers' phase after v's
					end := w.freed(v)
					if !v.held {
						end += came(v) - v.called.at // it may have been granted the lock when it left, and give it back
					}
					return v.parts[0].kind == writer && v.returned.seq < d.returned.seq && end+d.p.delay >= called
				}) {
				w.fail("a reader does not pass a writer that waits", "\n  %v\n  %v", c, d)
			}
		}
	}
}

// firstOf returns the call that Redis granted the lock that c's process passed on to it; c itself if it
// did not.
func (w *world) firstOf(c *call) *call {
	for d := w.passedBy(c); d != nil; d = w.passedBy(d) {
		c = d
	}
	return c
}

// passedBy returns the call of the same process that passed its lock on to c, nil if there is none.
func (w *world) passedBy(c *call) *call {
	for _, d := range w.calls {
		if d.held && d.p == c.p && d.parts[0] == c.parts[0] && d.tokens[0] == c.tokens[0]-1 {
			return d
		}
	}
	return nil
}

// came returns when a call was in Redis at the latest. The first use of a script takes more round
// trips than the others.
func came(c *call) time.Duration { return c.called.at + 12*c.p.delay + time.Millisecond }

// before reports whether c came to Redis before d.
func before(c, d *call) bool { return came(c) < d.called.at+d.p.delay }

// A step is what a call does to a lock at one instant.
type step struct {
	owner   int
	token   int64 // 0: it has none
	acquire bool
	reader  bool
}

// A lockState is what a lock is in the model: its holders, and its last token.
type lockState struct {
	readers int
	writer  int // the owner; 0: nobody
	token   int64
}

// next is the model of a lock. A hold ends after it began, as Porcupine knows from their times.
func next(s lockState, x step) (bool, lockState) {
	switch {
	case x.acquire && x.reader:
		s.readers++
		return s.writer == 0 || s.writer == x.owner, s
	case x.acquire:
		free := s.writer == 0 && s.readers == 0 && (x.token == 0 || x.token > s.token)
		s.writer, s.token = x.owner, x.token
		return free, s
	case x.reader:
		s.readers--
	default:
		s.writer = 0
	}
	return true, s
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		ok, s := next(state.(lockState), input.(step))
		return ok, s
	},
}

// checkLinear checks with Porcupine that the history of a lock is one that a lock in a single
// process could have had, where a hold ends when its Unlock is called, or at any time after it
// was lost. Where exclusion was given up there is no such history.
func (w *world) checkLinear(name string) {
	var history []porcupine.Operation
	n := 0
	for _, c := range w.calls {
		for i, p := range c.parts {
			if !c.held || p.name != name {
				continue
			}
			x := step{owner: c.owner, acquire: true, reader: p.kind == reader}
			if !x.reader && !w.forgotten(name, 0, w.took, corrupt, damage) {
				x.token = c.tokens[i]
			}
			n++
			history = append(history, porcupine.Operation{ClientId: n, Input: x, Call: c.called.seq, Return: c.returned.seq})
			x.acquire = false
			end := porcupine.Operation{ClientId: n, Input: x, Call: c.last().seq, Return: math.MaxInt64}
			if c.unlocked.seq != 0 && c.lost.seq == 0 && c.gone.seq == 0 {
				end.Return = c.unlocked.seq
			}
			if end.Call != 0 {
				history = append(history, end)
			}
		}
	}
	if n == 0 || n > 64 || w.given[name] > 0 || slices.ContainsFunc(w.calls, w.steppedLocked) {
		return
	}
	w.linear++
	if porcupine.CheckOperationsTimeout(lockModel, history, 10*time.Second) == porcupine.Illegal {
		w.fail("the history is that of a lock", "Porcupine finds no order for %s", name)
	}
}
