package sim_test

import (
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// sampling is the interval between two looks at all holds.
const sampling = 237 * time.Millisecond

// follow watches a hold until it ends, and checks that a loss is told by its deadline.
func (w *world) follow(c *call) {
	for {
		w.mu.Lock()
		w.sweepLocked()
		w.sampleLocked(c)
		left, certain := time.Until(c.promised), c.certain()
		if certain && left <= 0 {
			w.failLocked("a loss is told by the deadline", "%v: %v", c.promised.Sub(w.start), c)
			certain = false
		}
		w.mu.Unlock()
		if !certain {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-c.done:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// watch looks at all holds now and then.
func (w *world) watch() {
	for w.pause(sampling) {
		w.mu.Lock()
		w.sweepLocked()
		for _, c := range w.calls {
			w.sampleLocked(c)
		}
		w.mu.Unlock()
	}
}

// sampleLocked notes the deadline of a certain hold, and checks that Redis has the hold for as
// long.
func (w *world) sampleLocked(c *call) {
	if !c.certain() {
		return
	}
	deadline, ok := c.deadline()
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
		for i, s := range c.p.s {
			if i > 0 && p.kind != redlock {
				break
			}
			if l, ok := leaseOf(w.servers[i], p.name, s); ok && l+w.steppedForward(c) >= left {
				have++
			} else {
				ttl = l
			}
		}
		if need := len(c.p.s)/2 + 1; have < need && (have < 1 || p.kind == redlock) {
			w.failLocked("Redis has what is certain", "%v left, in Redis %v of %s: %v", left, ttl, p.name, c)
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
				w.failLocked("what Redis lost is lost within a lease", "after %v: %v", d, c)
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
	for _, f := range fields {
		if strings.HasPrefix(f, s.ID()+":") {
			return left, true
		}
	}
	return 0, false
}

// settled checks that a session remembers nothing of its locks.
func (w *world) settled(p *process, s *relock.Session) {
	for _, name := range w.plan.names {
		readers, writers := peek.Engine(s).QueuedRW(name)
		if n := peek.Engine(s).Queued(name) + readers + writers; n > 0 {
			w.fail("nothing is left in the process", "%d calls of process %d wait for %s", n, p.id, name)
		}
	}
	if peek.Engine(s).KnowsRW() {
		w.fail("nothing is left in the process", "process %d remembers an RWMutex", p.id)
	}
}
