package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

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

type faultKind uint8

const (
	slow faultKind = iota // the network of a process becomes slow
	cutUp
	cutDown
	cutBoth
	disconnect
	dropReplies
	restart
	flushScripts
	refuse // scripts are answered with an error
	clockBack
	closeSession
	vanish
	vanishSilently
	away         // Redis is, to everybody, for less than half a lease
	clockForward // by a fifth of the shortest lease
	forge        // another user publishes on the channels of the sessions
	corrupt      // the fencing token is none
	damage       // a key beside the lock has a wrong type
	forbid       // scripts that are given the lock are refused

	// The rest gives exclusion up.
	firstLossy
	restartEmpty = iota - 1
	clockAhead
	evict
	force
	faultKinds
)

var faultNames = [faultKinds]string{
	"slow", "cut up", "cut down", "cut", "disconnect", "lost replies", "restart", "script flush", "error", "clock back",
	"close", "vanish", "vanish silently", "away", "clock forward", "forged messages", "no token", "wrong type", "forbidden",
	"restart without data", "clock ahead", "eviction", "force",
}

func (k faultKind) String() string { return faultNames[k] }

// ofName reports whether a fault concerns one lock only.
func (k faultKind) ofName() bool { return k == force || k == corrupt || k == damage || k == forbid }

// ofProcess reports whether a fault concerns one process only.
func (k faultKind) ofProcess() bool {
	return k <= dropReplies || k == closeSession || k == vanish || k == vanishSilently
}

func (f fault) String() string {
	where := fmt.Sprintf("server %d", f.server)
	if f.kind.ofProcess() {
		where = fmt.Sprintf("process %d", f.proc)
	}
	return fmt.Sprintf("%-12v %s, %s", f.at, f.kind, where) +
		said("for", f.lasts, "by", f.step, "n", f.n, "of", f.text, "after a Lock", f.after)
}

var errorTexts = []string{
	"OOM command not allowed when used memory > 'maxmemory'.",
	"READONLY You can't write against a read only replica.",
	"LOADING Redis is loading the dataset in memory",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"NOSCRIPT No matching script. Please use EVAL.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
}

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
			parts := pick(r, theme...)
			f.text = pick(r, parts...).name
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
	defer w.troubleEnds(t)
	server, p := w.servers[f.server], w.procs[f.proc]
	network := p.nets[min(f.server, len(p.nets)-1)]
	heal := func() {}
	switch f.kind {
	case slow:
		network.Delay(p.delay + f.step)
		heal = func() { network.Delay(p.delay) }
	case cutUp:
		heal = network.Cut(memredis.Up)
	case cutDown:
		heal = network.Cut(memredis.Down)
	case cutBoth:
		heal = network.Cut()
	case disconnect:
		network.Break()
	case dropReplies:
		network.DropReplies(f.n)
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
		ctx, cancel := context.WithTimeout(background, time.Second)
		_, _ = w.operators[f.server].ForceUnlock(ctx, f.text)
		cancel()
		w.giveUp(f)
	case closeSession:
		p.close(w, false)
	case vanish, vanishSilently:
		p.vanish(f.kind == vanishSilently)
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
}

// troubleBegins notes a fault that happens now.
func (w *world) troubleBegins(f fault) *trouble {
	w.giveUp(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &trouble{fault: f, from: w.now(), to: -1}
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

func (w *world) troubleEnds(t *trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.to = w.now()
}

// giveUp notes that calls under way, and what is held, may be overlapped by others from now on.
func (w *world) giveUp(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
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
	from, to time.Duration // to is -1 as long as it lasts
}

// concerns reports whether a trouble may be the reason for what happens to a call itself. Others may
// still have to wait for what it has done to third parties.
func (t *trouble) concerns(c *call) bool {
	switch {
	case t.kind.ofProcess():
		return t.proc == c.p.id
	case t.kind == forge || t.kind == corrupt:
		return false
	case t.kind.ofName():
		return slices.ContainsFunc(c.op.parts, func(p part) bool { return p.name == t.text })
	}
	return t.server == 0 || c.op.parts[0].kind == redlock
}
