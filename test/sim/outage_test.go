package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/memredis"
)

// A hold is young for this time and two round trips, of which one tells that the server does not know a script.
// From then on it has its whole lease, however it was acquired.
const young = 50 * time.Millisecond

// grownUp returns from when on a hold has its whole lease.
func (c *call) grownUp() time.Duration { return c.returned.at + young + 4*c.p.delay }

// lease returns the shortest lease of a call.
func (c *call) lease() time.Duration {
	shortest := c.p.lease
	for _, d := range []time.Duration{c.op.lease, c.op.fixed, c.op.maxHold} {
		if d > 0 {
			shortest = min(shortest, d)
		}
	}
	return shortest
}

// awaitHold waits until a process has a hold that is no longer young, and reports whether the actors
// still act.
func (w *world) awaitHold(p *process) bool {
	for {
		w.mu.Lock()
		left := time.Duration(0)
		for _, c := range w.calls {
			if c.p == p && c.certain() && w.now() < c.grownUp() {
				left = c.grownUp() - w.now() + time.Microsecond
			}
		}
		w.mu.Unlock()
		if left > 0 {
			return w.pause(left)
		}
		if !w.pause(young / 2) {
			return false
		}
	}
}

// takeAway takes Redis away from all processes, in one of several ways.
func (w *world) takeAway(f fault) (heal func()) {
	var heals []func()
	for _, p := range w.procs {
		network := p.nets[min(f.server, len(p.nets)-1)]
		switch f.n {
		case 0: // a partition
			heals = append(heals, network.Cut())
		case 1: // it hangs
			heals = append(heals, network.Cut(memredis.Up))
		default: // it is down
			heals = append(heals, network.Refuse())
		}
	}
	if f.n == 3 {
		w.servers[f.server].Restart(true)
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}
}

// brieflyAwayLocked reports whether all that concerns a hold and may have been the reason of a loss now are
// outages of less than half its lease, each of which found it with all of its lease.
func (w *world) brieflyAwayLocked(c *call) bool {
	if c.parts[0].kind == redlock {
		return false
	}
	found := false
	last := -w.plan.lease // when the last outage ended
	for _, t := range w.troubles {
		to := t.to
		if to < 0 {
			to = w.now()
		}
		if !t.concerns(c) || to+w.plan.lease < c.called.at {
			continue
		}
		brief := t.kind == away || slices.Contains(outages, t.kind)
		if !brief || to-t.from >= c.lease()/2 || to >= c.returned.at-young && t.from < c.grownUp() || t.from < last+c.lease()/2 {
			return false
		}
		last, found = max(last, to), true
	}
	return found
}

// steppedLocked reports whether a step of the clock may have ended a hold, or its exclusion: one that was not
// whole, or much longer than the step.
func (w *world) steppedLocked(c *call) bool {
	for _, t := range w.troubles {
		if t.kind != clockForward || !t.concerns(c) || t.from < c.called.at {
			continue
		}
		if t.from >= c.returned.at-4*young && t.from < c.grownUp() || c.returned.seq == 0 || c.lease() < 5*t.step ||
			c.op.fixed > 0 || c.op.maxHold > 0 {
			return true
		}
		if slices.ContainsFunc(w.troubles, func(other *trouble) bool {
			return t != other && other.concerns(c) && other.from <= t.from+c.lease() &&
				(other.to < 0 || other.to+c.lease() >= t.from)
		}) {
			return true
		}
	}
	return false
}

// steppedForward returns by how much clocks stepped forward in the lease of a call, which another one of
// its process may have begun.
func (w *world) steppedForward(c *call) (d time.Duration) {
	for _, t := range w.troubles {
		if t.kind == clockForward && t.from >= c.called.at-w.plan.lease {
			d += t.step
		}
	}
	return d
}

// noTokens are values of a fencing key that are no token. The Lua of miniredis does not read inf and 1e30,
// but the largest integer, which no larger one follows either.
var noTokens = []string{"inf", "1e30", "garbage", "", largest, largest}

const largest = "9223372036854775807"

// spoil makes a key beside a lock useless, until heal is called.
func (w *world) spoil(f fault) (heal func()) {
	mini := w.servers[f.server].Mini
	fence, queue := "relock_fence:{"+f.text+"}", "relock_queue:{"+f.text+"}"
	if f.kind == corrupt {
		_ = mini.Set(fence, noTokens[f.n])
		mini.SetTTL(fence, time.Minute)
		return func() {}
	}
	if f.text == "rw" {
		queue = "relock_rwqueue:{rw}"
	}
	key := []string{fence, queue}[f.n%2]
	mini.Del(key)
	_, _ = mini.Lpush(key, "damage")
	return func() {
		if mini.Type(key) == "list" {
			mini.Del(key)
		}
	}
}

// forge publishes what a session may believe if it believes whoever may publish, and what would fill
// its memory.
func (w *world) forge(f fault) {
	mini := w.servers[f.server].Mini
	for _, p := range w.procs {
		id := p.s[min(f.server, len(p.s)-1)].ID()
		channel := "relock_session:" + id
		for n := f.n; n < f.n+10; n++ {
			for _, name := range w.plan.names {
				hold := fmt.Sprintf("%s:%d", id, n)
				for _, hold := range []string{hold, hold + ":write"} {
					mini.Publish(channel, fmt.Sprintf("granted %s %d 5000 %s", hold, 1<<51, name))
					mini.Publish(channel, "lost "+hold+" "+name)
				}
			}
		}
		bad := "granted " + id + ":1 inf -1 a"
		for _, text := range []string{"", "granted", "lost", "look " + id + ":1", bad, strings.Repeat(bad, 1<<12)} {
			mini.Publish(channel, text)
		}
	}
	for _, name := range w.plan.names {
		mini.Publish("redisson_lock__channel:{"+name+"}", "0")
		mini.Publish("redisson_rwlock:{"+name+"}", "0")
	}
}

// freesLocked checks that an Unlock has released its lock, though keys beside it are damaged.
func (w *world) freesLocked(c *call) {
	if time.Until(c.promised) <= 2*time.Millisecond {
		return // it ended with the hold, before Redis had answered
	}
	damaged := false
	for _, t := range w.troubles {
		if t.concerns(c) && t.kind != damage {
			return // the release may not have come through
		}
		damaged = damaged || t.concerns(c)
	}
	if !damaged || c.parts[0].kind == redlock || slices.ContainsFunc(w.calls, func(d *call) bool {
		return d != c && d.p == c.p && sameName(c, d) && (d.returned.seq == 0 ||
			d.held && d.unlocked.seq == 0 || !d.held && d.returned.at > c.unlocking.at-2*time.Second)
	}) {
		return // the process may have it for another goroutine, or give back what that did not wait for
	}
	for _, p := range c.parts {
		if left, ok := leaseOf(w.servers[0], p.name, c.p.s[0]); ok {
			w.failLocked("Unlock releases", "%s, kept for %v: %v", p.name, left, c)
		}
	}
}
