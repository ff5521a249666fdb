package sim_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/memredis"
	"github.com/relock-go/relock/internal/peek"
)

// patience is how long an actor may need for all it does. It is virtual.
const patience = 30 * time.Minute

// A world is the servers, processes and actors of a plan, and what happened to them.
type world struct {
	plan      *plan
	start     time.Time
	servers   []*memredis.Server
	recorders []*recorder // of the servers
	procs     []*process
	operators []*relock.Session // one on each server, if the plan has locks forced open
	clients   []rueidis.Client
	over      chan struct{} // closed when all actors are done: the trouble ends

	mu       sync.Mutex // protects following
	seq      int64      // of the last event
	owners   int
	calls    []*call
	holds    int               // that calls gave
	given    map[string]int    // by name: how often exclusion was given up
	passed   map[string]bool   // by name: it was handed off
	asked    map[*process]bool // it has lost the message that asks for a lock it keeps
	troubles []*trouble
	took     time.Duration // virtual
	linear   int           // histories that went through Porcupine
	accepted int           // steps that the specification has accepted
	aside    int           // steps that it does not know

	failing  sync.Mutex // protects failures
	failures []failure
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
	w := &world{
		plan: p, given: make(map[string]int), passed: make(map[string]bool), asked: make(map[*process]bool),
	}
	w.bubble(t, func() {
		w.start, w.over = time.Now(), make(chan struct{}) // channels and times are the bubble's
		w.build()
		w.play(of)
		w.settle()
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
func (w *world) build() {
	for i := range w.plan.servers {
		server := must(memredis.New())
		if w.plan.skews != nil {
			server.StepClock(w.plan.skews[i])
		}
		w.servers = append(w.servers, server)
		w.keepLedger(server)
		w.recorders = append(w.recorders, record(server))
	}
	for i, plan := range w.plan.procs {
		p := &process{procPlan: plan, id: i}
		p.ctx, p.cancel = context.WithCancel(kit.Background)
		w.procs = append(w.procs, p)
		for _, server := range w.servers {
			net := server.Process()
			p.nets = append(p.nets, net)
			p.s = append(p.s, w.session(net, relock.WithLease(plan.lease), relock.WithTenure(plan.tenure)))
			net.Delay(plan.delay)
			if w.plan.keeps {
				net.LoseMessage("wanted ")
			}
		}
	}
	if slices.ContainsFunc(w.plan.faults, func(f fault) bool { return f.kind == force }) {
		for _, server := range w.servers {
			w.operators = append(w.operators, w.session(server.Process()))
		}
	}
}

func (w *world) session(net *memredis.Process, opts ...relock.SessionOption) *relock.Session {
	client := must(net.Client())
	w.clients = append(w.clients, client)
	return must(relock.NewSession(kit.Background, client, opts...))
}

// must returns what a world needs to start.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// play lets actors act and faults happen until all actors are done.
func (w *world) play(of keep) {
	w.start = time.Now()
	var actors, others sync.WaitGroup
	for _, i := range of.actors {
		plan := w.plan.actors[i]
		a := &actor{w: w, id: i, p: w.procs[plan.proc]}
		actors.Go(func() { a.act(plan.ops) })
	}
	for _, i := range of.faults {
		others.Go(func() { w.inflict(w.plan.faults[i]) })
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
	select {
	case <-time.After(d):
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
	if len(w.troubles) == 0 && !w.plan.keeps {
		w.empty(lasting)
	}
	end := w.now() + 2*w.plan.lease + 20*time.Second + w.stepped(clockBack, 0)
	for w.now() < end && (w.keeps() || w.remembered() != "") {
		time.Sleep(sampling)
	}
	w.empty(lasting)
	if what := w.remembered(); what != "" {
		w.fail("nothing is left in the process", "%s", what)
	}
}

var lasting = regexp.MustCompile("^relock_(fence|session):") // fencing tokens and labels

// keeps reports whether servers have other keys than those that last.
func (w *world) keeps() bool {
	return slices.ContainsFunc(w.servers, func(s *memredis.Server) bool {
		return slices.ContainsFunc(s.Mini.Keys(), func(key string) bool { return !lasting.MatchString(key) })
	})
}

// behind returns by how much a server's clock may be behind what it was, or behind another's.
func (w *world) behind(i int) time.Duration {
	d := w.stepped(clockBack, 0)
	if len(w.servers) > 1 {
		d += w.stepped(clockAhead, 0) + w.stepped(clockForward, 0)
	}
	if w.plan.skews != nil {
		d += slices.Max(w.plan.skews) - w.plan.skews[i]
	}
	return d
}

// empty checks that no keys are in Redis but those of some kinds, which expire.
func (w *world) empty(but *regexp.Regexp) {
	for i, server := range w.servers {
		for _, key := range server.Mini.Keys() {
			left, ok := server.TTL(key) // not ok if it has just expired
			if ok && (!but.MatchString(key) || left <= 0 || left > 61*time.Second+2*w.plan.lease+w.behind(i)) {
				w.fail("nothing is left in Redis", "server %d has %s, with %v to live", i, key, left)
			}
		}
	}
}

// end ends everything, so that the bubble can end.
func (w *world) end() {
	for _, p := range w.procs {
		p.close(w, p.gone.seq != 0)
		p.cancel()
	}
	for _, s := range w.operators {
		_ = s.Close(kit.Background)
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
		ctx, cancel := context.WithTimeout(kit.Background, 10*time.Second)
		if gone {
			cancel()
		}
		start := time.Now()
		err := s.Close(ctx)
		cancel()
		if took := time.Since(start); took > 10*time.Second+400*time.Millisecond {
			w.fail("Close ends with its context", "that of process %d took %v", p.id, took)
		}
		w.mu.Lock()
		faulty := p.closing
		w.mu.Unlock()
		if kit.IsClosed(w.over) && !gone && !faulty && err != nil {
			w.fail("Close releases everything", "process %d: %v", p.id, err)
		}
	}
}

func (w *world) now() time.Duration { return time.Since(w.start) }

func (w *world) fail(claim, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if w.took == 0 { // in the bubble
		what = fmt.Sprintf("%v: %s", w.now(), what)
	}
	w.failing.Lock()
	defer w.failing.Unlock()
	w.failures = append(w.failures, failure{claim, what})
}

type actor struct {
	w  *world
	id int
	p  *process
}

// act does one op after the other, until the process vanishes or its session is closed.
func (a *actor) act(ops []op) {
	for i := range ops {
		if a.sleep(ops[i].pause, nil); a.p.ctx.Err() != nil || a.w.hadEnough() {
			return
		}
		if err := a.do(&ops[i]); errors.Is(err, relock.ErrClosed) {
			return
		}
	}
}

// sleep waits for d, or until the process vanishes or end is closed.
func (a *actor) sleep(d time.Duration, end <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-a.p.ctx.Done():
	case <-end:
	}
}

func (a *actor) do(o *op) error {
	ctx := a.p.ctx
	if o.owned {
		ctx = a.p.s[0].NewContext(ctx)
	}
	c := &call{op: o, p: a.p, actor: a.id, parts: o.parts}
	c.make()
	if held, err := a.lock(ctx, c); !held {
		return err
	}
	a.sleep(o.section/2, c.ends)
	if o.reenter {
		a.reenter(ctx, c)
	}
	var read *call
	if o.reads {
		read = &call{op: o, p: a.p, actor: a.id, parts: []part{{reader, o.parts[0].name}}, owner: c.owner, nested: true}
		read.make()
		if held, _ := a.lock(ctx, read); !held {
			read = nil
		}
	}
	a.sleep(o.section-o.section/2, c.ends)
	if o.handsOff {
		a.handOff(ctx, c)
		return nil
	}
	a.unlock(ctx, c)
	if read != nil {
		a.sleep(o.section/2, read.ends)
		a.unlock(ctx, read)
	}
	return nil
}

// lock locks, and reports whether that gave a hold.
func (a *actor) lock(ctx context.Context, c *call) (held bool, err error) {
	if c.op.patience > 0 && !c.nested {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.op.patience)
		defer cancel()
	}
	a.w.calling(c)
	if c.op.try {
		held, err = c.lock.TryLock(ctx)
	} else {
		err = c.lock.Lock(ctx)
		held = err == nil
	}
	a.w.returned(c, held, err)
	return held, err
}

func (a *actor) unlock(ctx context.Context, c *call) {
	a.w.unlocking(c)
	a.w.unlocked(c, c.lock.Unlock(ctx))
}

// reenter takes the other way, of Lock and Acquire, to what the owner holds, and ends that again.
func (a *actor) reenter(ctx context.Context, c *call) {
	o := *c.op
	o.acquires = !o.acquires
	again := &call{op: &o, p: c.p, parts: c.parts}
	again.make()
	start := time.Now()
	err := again.lock.Lock(ctx)
	took := time.Since(start)
	closed := errors.Is(err, relock.ErrClosed) && kit.IsClosed(a.p.s[0].Done()) // a reader's session, whose holds are not lost yet
	refused := err != nil && !kit.IsClosed(c.done) && !closed
	if a.p.ctx.Err() == nil && (err == nil && took > 0 || refused) {
		a.w.fail("an owner re-enters", "after %v: %v: %v", took, err, c)
	}
	if err == nil {
		if err := again.lock.Unlock(ctx); err != nil && !kit.IsClosed(c.done) {
			a.w.fail("an owner re-enters", "unlock: %v: %v", err, c)
		}
	}
}

// make makes the handle of a call, a new one for each.
func (c *call) make() {
	var opts []relock.LockOption
	if c.op.lease > 0 && !c.nested {
		opts = append(opts, relock.WithLease(c.op.lease))
	}
	if c.op.fixed > 0 {
		opts = append(opts, relock.WithFixedLease(c.op.fixed))
	}
	if c.op.keep > 0 {
		opts = append(opts, relock.WithKeep(c.op.keep))
	}
	if c.op.maxHold > 0 {
		opts = append(opts, relock.WithMaxHold(c.op.maxHold))
	}
	var lockers []relock.Locker
	for _, p := range c.parts {
		lockers = append(lockers, p.locker(c.p, opts))
	}
	if c.lock = lockers[0]; len(lockers) > 1 {
		c.lock = relock.NewGroup(lockers...)
	}
	if c.op.acquires {
		c.lock = kit.NewHoldLocker(c.lock)
	}
}

// hold returns the hold of a call.
func (c *call) hold() *relock.Hold {
	if a, ok := c.lock.(*kit.HoldLocker); ok {
		return a.Hold
	}
	return peek.Locked(c.lock)
}

func (p part) locker(proc *process, opts []relock.LockOption) relock.Locker {
	s := proc.s[0]
	switch p.kind {
	case mutex:
		return s.Mutex(p.name, opts...)
	case fair:
		return s.FairMutex(p.name, opts...)
	case writer:
		return s.RWMutex(p.name, opts...)
	case reader:
		return s.RWMutex(p.name, opts...).RLocker()
	}
	return relock.NewRedlock(proc.s, p.name, opts...)
}
