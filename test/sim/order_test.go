package sim_test

import (
	"slices"
	"time"
)

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
			for _, f := range w.sharing(e) { // in order of their calls
				if f.called.at < e.called.at && w.freed(f) >= e.called.at {
					earliest = min(earliest, f.called.at)
				}
			}
			earliest = min(earliest, e.called.at)
		}
		if latest < earliest+d.p.delay {
			w.fail("places are served in order of arrival", "\n  %v\n  %v", c, d)
		}
	}
}

// sharing returns the other calls of a process that may share a call's place.
func (w *world) sharing(c *call) (others []*call) {
	k := c.parts[0].kind
	for _, d := range w.calls {
		if d != c && d.p == c.p && sameName(c, d) && overlap(c, d) &&
			(k == mutex && d.parts[0].kind != fair || k == writer && d.parts[0].kind == writer) {
			others = append(others, d)
		}
	}
	return others
}

// latest returns when a call had a place in Redis at the latest: it may have waited in its process for
// another one.
func (w *world) latest(c *call) time.Duration {
	latest := came(c)
	for _, d := range w.sharing(c) {
		end := w.freed(d)
		if d.lost.seq != 0 {
			end = d.lost.at
		}
		if end >= c.called.at && end <= c.returned.at {
			latest = max(latest, end+came(c)-c.called.at)
		}
	}
	return latest
}

// queues reports whether a call waited and then had a lock of its own.
func (c *call) queues() bool { return c.held && !c.op.try && !c.nested && len(c.parts) == 1 }

// checkPhases checks that a reader waits for one writer at most, not counting those whose lease
// expired, and that readers that come while a writer waits do not join those that read.
func (w *world) checkPhases(c *call) {
	switch c.parts[0].kind {
	case reader:
		turns := make(map[int64]bool)
		for _, d := range w.calls {
			if d.held && d.lost.seq == 0 && d.parts[0].kind == writer && came(c) < d.returned.at && d.returned.seq < c.returned.seq {
				turns[w.turn(d)] = true
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

// turn returns the first token of a writer's turn, which its process may pass on for a tenure.
func (w *world) turn(c *call) int64 { return w.firstOf(c).tokens[0] }

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
