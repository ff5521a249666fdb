package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
)

// A fault happens at a time of the world, and lasts for some.
type fault struct {
	kind   faultKind
	at     time.Duration
	lasts  time.Duration
	proc   int // whose network or session it concerns, of those kinds
	server int // which it concerns, of the other kinds
	n      int // lost replies; which key is evicted
	step   time.Duration
	text   string // of an error; the name of the lock that it concerns
	after  bool   // it begins when a hold of the process is no longer young
}

type faultKind string

const (
	slow           faultKind = "slow" // the network of a process becomes so
	cutUp          faultKind = "cut up"
	cutDown        faultKind = "cut down"
	cutBoth        faultKind = "cut"
	disconnect     faultKind = "disconnect"
	dropReplies    faultKind = "lost replies"
	restart        faultKind = "restart"
	flushScripts   faultKind = "script flush"
	refuse         faultKind = "error" // answers scripts
	clockBack      faultKind = "clock back"
	closeSession   faultKind = "close"
	vanish         faultKind = "vanish"
	vanishSilently faultKind = "vanish silently"
	away           faultKind = "away"            // Redis is, to everybody, for less than half a lease
	clockForward   faultKind = "clock forward"   // by a fifth of the shortest lease
	forge          faultKind = "forged messages" // another user publishes on the channels of the sessions
	corrupt        faultKind = "no token"        // is at the key of the fencing token
	damage         faultKind = "wrong type"      // of a key beside the lock
	forbid         faultKind = "forbidden"       // scripts that are given the lock are refused
	restartEmpty   faultKind = "restart without data"
	clockAhead     faultKind = "clock ahead"
	evict          faultKind = "eviction"
	force          faultKind = "force"
)

var (
	ofProcess = []faultKind{slow, cutUp, cutDown, cutBoth, disconnect, dropReplies, closeSession, vanish, vanishSilently}
	ofName    = []faultKind{corrupt, damage, forbid, force}
	plain     = []faultKind{
		slow, cutUp, cutDown, cutBoth, disconnect, dropReplies, restart, flushScripts, refuse, clockBack, closeSession,
		vanish, vanishSilently,
	}
	special = []faultKind{away, clockForward, forge, corrupt, damage, forbid}
	lossy   = []faultKind{restartEmpty, clockAhead, evict, force} // give exclusion up
	outages = []faultKind{cutUp, cutDown, cutBoth, disconnect, restart}
)

var errorTexts = []string{
	"OOM command not allowed when used memory > 'maxmemory'.",
	"READONLY You can't write against a read only replica.",
	"LOADING Redis is loading the dataset in memory",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"NOSCRIPT No matching script. Please use EVAL.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
}

var directions = map[faultKind][]memredis.Direction{cutUp: {memredis.Up}, cutDown: {memredis.Down}}

func newFaults(r *rand.Rand, p *plan, theme [][]part) (faults []fault) {
	if chance(r, p.row.calm) {
		return nil
	}
	kinds := pick(r, p.row.kinds...)
	for range 1 + r.IntN(p.row.most) {
		f := fault{
			kind:   pick(r, kinds...),
			at:     upTo(r, pick(r, 500*time.Millisecond, 3*time.Second, 12*time.Second)),
			proc:   r.IntN(len(p.procs)),
			server: r.IntN(p.servers),
		}
		switch f.kind {
		case slow:
			f.step, f.lasts = upTo(r, time.Second), upTo(r, 5*time.Second)
		case cutUp, cutDown, cutBoth:
			f.lasts = upTo(r, pick(r, 500*time.Millisecond, 2*p.lease))
			if p.row.brief {
				f.lasts, f.after = brief(r, p), chance(r, 0.6)
			}
		case away:
			f.n, f.lasts, f.after = r.IntN(4), brief(r, p), chance(r, 0.6)
		case clockForward:
			f.step, f.after = p.procs[0].lease, chance(r, 0.6)
			for _, proc := range p.procs {
				f.step = min(f.step, proc.lease)
			}
			f.step = upTo(r, f.step/5)
		case forge:
			f.n = r.IntN(20)
		case corrupt, damage, forbid:
			f.n, f.text = r.IntN(len(noTokens)), pick(r, p.names...)
			f.lasts = upTo(r, pick(r, 500*time.Millisecond, 4*p.lease))
		case dropReplies:
			f.n = 1 + r.IntN(3)
		case refuse:
			f.text, f.lasts = pick(r, errorTexts...), upTo(r, pick(r, 500*time.Millisecond, 2*p.lease))
		case clockAhead, clockBack:
			f.step = upTo(r, pick(r, time.Second, 20*time.Second))
		case evict:
			f.n = r.IntN(10)
		case force:
			f.text = pick(r, pick(r, theme...)...).name
		}
		faults = append(faults, f)
	}
	slices.SortFunc(faults, func(a, b fault) int { return int(a.at - b.at) })
	return faults
}

// inflict lets f happen, until its time or the world's trouble is over.
func (w *world) inflict(f fault) {
	if !w.pause(f.at) || f.after && !w.awaitHold(w.procs[f.proc]) {
		return
	}
	t := w.troubleBegins(f)
	server, p := w.servers[f.server], w.procs[f.proc]
	network := p.nets[f.server]
	heal := func() {}
	switch f.kind {
	case slow:
		network.Delay(p.delay + f.step)
		heal = func() { network.Delay(p.delay) }
	case cutUp, cutDown, cutBoth:
		heal = network.Cut(directions[f.kind]...)
	case disconnect:
		network.Break()
	case dropReplies:
		network.DropReplies(f.n)
		heal = func() {
			for network.Drops() > 0 && w.pause(sampling) {
			}
		}
	case restart, restartEmpty:
		server.Restart(f.kind == restart)
	case flushScripts:
		server.FlushScripts()
	case refuse:
		heal = server.FailScripts(f.text)
	case clockBack:
		server.StepClock(-f.step)
	case clockAhead:
		server.StepClock(f.step)
	case evict:
		if keys := server.Mini.Keys(); len(keys) > 0 {
			server.Evict(keys[f.n%len(keys)])
		}
	case force:
		ctx, cancel := context.WithTimeout(kit.Background, time.Second)
		_, _ = w.operators[f.server].ForceUnlock(ctx, f.text)
		cancel()
		unlock := w.sweep()
		w.giveUpLocked(f)
		unlock()
	case closeSession:
		p.close(w, false)
	case vanish, vanishSilently:
		for _, net := range p.nets {
			net.Vanish(f.kind == vanishSilently)
		}
		p.cancel()
	case away:
		heal = w.takeAway(f)
	case clockForward:
		server.StepClock(f.step)
	case forge:
		w.forge(f)
	case corrupt, damage:
		heal = w.spoil(f)
	case forbid:
		heal = server.FailKey(f.text, "NOPERM No permissions to access a key")
	}
	if f.lasts > 0 {
		w.pause(f.lasts)
	}
	heal()
	w.mu.Lock()
	t.to = w.now()
	w.mu.Unlock()
}

// troubleBegins notes a fault that happens now.
func (w *world) troubleBegins(f fault) *trouble {
	defer w.sweep()()
	w.giveUpLocked(f)
	t := &trouble{fault: f, from: w.now(), to: notYet}
	w.troubles = append(w.troubles, t)
	p := w.procs[f.proc]
	switch f.kind {
	case closeSession:
		p.closing = true
	case vanish, vanishSilently:
		w.vanishLocked(p)
	}
	return t
}

// giveUpLocked notes that calls under way, and what is held, may be overlapped by others from now on.
func (w *world) giveUpLocked(f fault) {
	switch f.kind {
	case force:
		w.given[f.text]++
	case restartEmpty, clockAhead, evict:
		for _, name := range w.plan.names {
			if f.server == 0 || name == "red" {
				w.given[name]++
			}
		}
	}
}

// A trouble is a fault that has happened.
type trouble struct {
	fault
	from, to time.Duration // to is notYet as long as it lasts
}

const notYet = time.Duration(1) << 60

// during reports whether a trouble was there in a span, or within some time before it.
func (t *trouble) during(from, to, before time.Duration) bool {
	return t.from <= to && t.to+before >= from
}

// concerns reports whether a trouble may be the reason for what happens to a call itself. Others may
// still have to wait for what it has done to third parties.
func (t *trouble) concerns(c *call) bool {
	switch {
	case slices.Contains(ofProcess, t.kind):
		return t.proc == c.p.id
	case t.kind == forge || t.kind == corrupt:
		return false
	case slices.Contains(ofName, t.kind):
		return slices.ContainsFunc(c.op.parts, func(p part) bool { return p.name == t.text })
	}
	return t.server == 0 || c.op.parts[0].kind == redlock
}

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
		network := p.nets[f.server]
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
		to := min(t.to, w.now())
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
			return t != other && other.concerns(c) && other.during(t.from, t.from+c.lease(), c.lease())
		}) {
			return true
		}
	}
	return false
}

// noTokens are values of a fencing key that are no token. The Lua of miniredis does not read inf and 1e30,
// but the largest integer, which no larger one follows either.
var noTokens = []string{"inf", "1e30", "garbage", "", largest, largest}

const largest = "9223372036854775807"

// spoil makes a key beside a lock useless, until heal is called.
func (w *world) spoil(f fault) (heal func()) {
	mini := w.servers[f.server].Mini
	fence := "relock_fence:{" + f.text + "}"
	if f.kind == corrupt {
		_ = mini.Set(fence, noTokens[f.n])
		mini.SetTTL(fence, time.Minute)
		return func() {}
	}
	key := []string{fence, queueOf(f.text)}[f.n%2]
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
		id := p.s[f.server].ID()
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
		for _, text := range []string{"", "granted", "lost", "poll " + id + ":1", bad, strings.Repeat(bad, 1<<12)} {
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
	if c.op.keep > 0 || time.Until(c.promised) <= 2*time.Millisecond {
		return // it is kept, or it ended with the hold, before Redis had answered
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
			w.fail("Unlock releases", "%s, kept for %v: %v", p.name, left, c)
		}
	}
}
