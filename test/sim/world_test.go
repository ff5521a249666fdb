package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

var background = context.Background()

// patience is how long an actor may need for all it does. It is virtual.
const patience = 30 * time.Minute

// A world is the servers, processes and actors of a plan, and what happened to them.
type world struct {
	plan      *plan
	start     time.Time
	servers   []*memredis.Server
	procs     []*process
	operators []*relock.Session // one on each server, if the plan has locks forced open
	clients   []rueidis.Client
	over      chan struct{} // closed when all actors are done: the trouble ends

	mu       sync.Mutex // protects following
	seq      int64      // of the last event
	owners   int
	calls    []*call
	holds    int            // that calls gave
	given    map[string]int // by name: how often exclusion was given up
	troubles []*trouble
	failures []failure
	took     time.Duration // virtual
	linear   int           // histories that went through Porcupine
}

// A failure is something that must not happen.
type failure struct{ claim, what string }

// A process has a session on each server.
type process struct {
	procPlan
	id      int
	nets    []*memredis.Process
	s       []*relock.Session
	ctx     context.Context // ends when it vanishes
	cancel  context.CancelFunc
	closing bool  // the world's mutex guards it
	gone    stamp // as well
}

// run runs a plan in a bubble, with some of its faults and actors.
func run(t *testing.T, p *plan, of keep) *world {
	w := &world{plan: p, given: make(map[string]int)}
	w.bubble(t, func() {
		w.start, w.over = time.Now(), make(chan struct{}) // channels and times are the bubble's
		if w.build() {
			w.play(of)
			w.settle()
		}
		w.end()
		w.took = w.now()
	})
	w.check()
	return w
}

// bubble runs f in a bubble, which ends when all of its goroutines have ended.
func (w *world) bubble(t *testing.T, f func()) {
	defer func() {
		if r := recover(); r != nil {
			w.took = 1
			w.fail("nothing is left in the process", "%v", r)
		}
	}()
	synctest.Test(t, func(*testing.T) { f() })
}

// build makes servers and processes.
func (w *world) build() bool {
	for range w.plan.servers {
		server, err := memredis.New()
		if err != nil {
			w.fail("the world starts", "%v", err)
			return false
		}
		w.servers = append(w.servers, server)
		w.keepLedger(server)
	}
	for i, plan := range w.plan.procs {
		p := &process{procPlan: plan, id: i}
		p.ctx, p.cancel = context.WithCancel(background)
		w.procs = append(w.procs, p)
		for _, server := range w.servers {
			net := server.Process()
			s := w.session(net, relock.WithLease(plan.lease), relock.WithTenure(plan.tenure))
			if s == nil {
				return false
			}
			net.Delay(plan.delay)
			p.nets, p.s = append(p.nets, net), append(p.s, s)
		}
	}
	if slices.ContainsFunc(w.plan.faults, func(f fault) bool { return f.kind == force }) {
		for _, server := range w.servers {
			s := w.session(server.Process())
			if s == nil {
				return false
			}
			w.operators = append(w.operators, s)
		}
	}
	return true
}

func (w *world) session(net *memredis.Process, opts ...relock.SessionOption) *relock.Session {
	client, err := net.Client()
	if err == nil {
		w.clients = append(w.clients, client)
		var s *relock.Session
		if s, err = relock.NewSession(background, client, opts...); err == nil {
			return s
		}
	}
	w.fail("the world starts", "%v", err)
	return nil
}

// play lets actors act and faults happen until all actors are done.
func (w *world) play(of keep) {
	w.start = time.Now()
	var actors, others sync.WaitGroup
	for i, plan := range w.plan.actors {
		if of.actors.has(i) {
			a := &actor{w: w, id: i, p: w.procs[plan.proc]}
			actors.Go(func() { a.act(plan.ops) })
		}
	}
	for i, f := range w.plan.faults {
		if of.faults.has(i) {
			others.Go(func() { w.inflict(f) })
		}
	}
	others.Go(w.watch)
	done := make(chan struct{})
	go func() { actors.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		for _, c := range w.calls {
			if c.returned.seq == 0 || c.unlocking.seq != 0 && c.unlocked.seq == 0 {
				w.fail("no call blocks for ever", "%v", c)
			}
		}
		for _, p := range w.procs {
			p.cancel()
		}
		<-done
	}
	close(w.over)
	others.Wait()
}

// pause sleeps for d, and reports whether the actors still act.
func (w *world) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.over:
		return false
	}
}

// settle checks that nothing is left once everything is unlocked.
func (w *world) settle() {
	for _, p := range w.procs {
		for _, net := range p.nets {
			net.Heal()
		}
	}
	time.Sleep(time.Second)
	if len(w.troubles) == 0 {
		w.empty("relock_fence:", "relock_session:", "relock_seen:")
	}
	for end := w.now() + 2*w.plan.lease + 20*time.Second + w.steppedBack(0); w.now() < end && w.keeps(); {
		time.Sleep(sampling)
	}
	w.empty("relock_fence:", "relock_session:") // labels
	for _, p := range w.procs {
		if p.gone.seq != 0 || p.closing {
			continue
		}
		for _, s := range p.s {
			w.settled(p, s)
		}
	}
}

// keeps reports whether servers have keys of more than fencing tokens and labels.
func (w *world) keeps() bool {
	return slices.ContainsFunc(w.servers, func(s *memredis.Server) bool {
		return slices.ContainsFunc(s.Mini.Keys(), func(key string) bool {
			return !hasPrefix(key, "relock_fence:", "relock_session:")
		})
	})
}

// empty checks that no keys are in Redis but those with these prefixes, which expire.
func (w *world) empty(but ...string) {
	for i, server := range w.servers {
		for _, key := range server.Mini.Keys() {
			left, ok := server.TTL(key) // not ok if it has just expired
			if ok && (!hasPrefix(key, but...) || left <= 0 || left > 61*time.Second+2*w.plan.lease+w.steppedBack(0)) {
				w.fail("nothing is left in Redis", "server %d has %s, with %v to live", i, key, left)
			}
		}
	}
}

func hasPrefix(key string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// end ends everything, so that the bubble can end.
func (w *world) end() {
	for _, p := range w.procs {
		p.close(w, p.gone.seq != 0)
		p.cancel()
	}
	for _, s := range w.operators {
		_ = s.Close(background)
	}
	for _, c := range w.clients {
		c.Close()
	}
	for _, s := range w.servers {
		s.Close()
	}
}

// close closes the sessions of a process.
func (p *process) close(w *world, gone bool) {
	for _, s := range p.s {
		ctx, cancel := context.WithTimeout(background, 10*time.Second)
		if gone {
			cancel()
		}
		start := time.Now()
		err := s.Close(ctx)
		cancel()
		if took := time.Since(start); took > 10*time.Second+400*time.Millisecond {
			w.fail("Close ends with its context", "that of process %d took %v", p.id, took)
		}
		if closed(w.over) && !gone && !p.closing && err != nil {
			w.fail("Close releases everything", "process %d: %v", p.id, err)
		}
	}
}

func (p *process) vanish(silently bool) {
	for _, net := range p.nets {
		net.Vanish(silently)
	}
	p.cancel()
}

func (w *world) now() time.Duration { return time.Since(w.start) }

func (w *world) fail(claim, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(claim, format, args...)
}

func (w *world) failLocked(claim, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if w.took == 0 { // in the bubble
		what = fmt.Sprintf("%v: %s", w.now(), what)
	}
	w.failures = append(w.failures, failure{claim, what})
}
