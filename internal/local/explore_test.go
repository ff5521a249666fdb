package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The exploration visits every state that a few calls can reach in the real code of the table and
// of owners, breadth first: each step is tried on a copy of each state. Time is a small number, and
// so are the tokens of a lease. Redis is a set of leases, some of them another process's.

const (
	length = 2 // of leases
	window = 1 // the hand-off window, and for how long readers may join
	block  = 2 // tokens of a lease
)

// phase is what a call of the world does.
type phase uint8

const (
	idle    phase = iota
	waits         // until the table has news
	asksNow       // Redis, which has not answered
	waitsIn       // in Redis: that has answered that the lock is taken
	follows       // another call of its owner
	holds         // a hold
)

// actor is a goroutine that locks and unlocks, again and again.
type actor struct {
	reads, try, keep, crowd bool
	owner                   int // of world.owners; -1: none
}

// caller is where an actor is.
type caller struct {
	phase
	c     *Call
	hold  *Hold
	join  *Lease // that it has asked whether it may share
	first bool   // of its owner's calls
}

// world is a state.
type world struct {
	t       *Table // for its functions; the entry is below
	e       *entry
	actors  []actor
	callers []caller
	owners  []*Owner
	crowd   *Crowd

	now    int64
	heard  int64
	redis  []*Lease // of this process, that Redis has
	other  bool     // another process has the lock
	leaves []*Lease // that are being released
	kept   *Lease   // that the keeper was told to keep
	order  [2][]int // the actors that wait in memory, by side, in the order in which they came
	trace  *trace

	leaving int // the actor whose call has been cancelled by this step; -1: none
}

type trace struct {
	step   string
	before *trace
}

func (tr *trace) String() string {
	var steps []string
	for ; tr != nil; tr = tr.before {
		steps = append(steps, tr.step)
	}
	slices.Reverse(steps)
	return strings.Join(steps, "\n")
}

var key = Key{Name: "a"}

func newWorld(actors []actor) *world {
	w := &world{t: NewTable(window), e: &entry{name: "a"}, actors: actors, now: 10, crowd: new(Crowd), leaving: -1}
	for _, a := range actors {
		w.callers = append(w.callers, caller{})
		for a.owner >= len(w.owners) {
			w.owners = append(w.owners, NewOwner(nil))
		}
	}
	return w
}

// clone copies everything that w leads to.
func (w *world) clone() *world {
	calls, hs, leases := make(map[*Call]*Call), make(map[*Hold]*Hold), make(map[*Lease]*Lease)
	owners := make(map[*Owner]*Owner)
	lease := func(l *Lease) *Lease {
		if l == nil {
			return nil
		}
		if leases[l] == nil {
			n := &Lease{Takes: l.Takes, Token: l.Token, Top: l.Top, Start: l.Start}
			n.Deadline.Store(l.Deadline.Load())
			n.Known.Store(l.Known.Load())
			leases[l] = n
		}
		return leases[l]
	}
	for _, o := range w.owners {
		owners[o] = NewOwner(nil)
	}
	hold := func(h *Hold) *Hold {
		if h == nil {
			return nil
		}
		if hs[h] == nil {
			n := &Hold{
				Lease: lease(h.Lease), Owner: owners[h.Owner], Token: h.Token, Since: h.Since, Keep: h.Keep, Reads: h.Reads,
				Passed: h.Passed, shared: h.shared, wants: h.wants,
			}
			n.state.Store(h.state.Load())
			n.calls.Store(h.calls.Load())
			hs[h] = n
		}
		return hs[h]
	}
	n := &world{
		t: w.t, actors: w.actors, now: w.now, heard: w.heard, other: w.other, kept: lease(w.kept), trace: w.trace,
		crowd: &Crowd{hold(w.crowd.hold)}, leaving: -1,
	}
	call := func(c *Call) *Call {
		if c == nil {
			return nil
		}
		if calls[c] == nil {
			m := &Call{
				Name: c.Name, Owner: owners[c.Owner], Reads: c.Reads, Try: c.Try, Length: c.Length, Keep: c.Keep,
				C: make(chan struct{}, 1), state: c.state, refused: c.refused, hold: hold(c.hold), since: c.since,
			}
			if c.Crowd != nil {
				m.Crowd = n.crowd
			}
			if len(c.C) > 0 {
				m.signal()
			}
			calls[c] = m
		}
		return calls[c]
	}
	for _, c := range w.callers {
		n.callers = append(n.callers, caller{c.phase, call(c.c), hold(c.hold), lease(c.join), c.first})
	}
	for _, o := range w.owners {
		m := owners[o]
		for k, s := range o.sections {
			m.sections[k] = &section{holds: [2]*Hold{hold(s.holds[0]), hold(s.holds[1])}, first: call(s.first)}
		}
		n.owners = append(n.owners, m)
	}
	for _, l := range w.redis {
		n.redis = append(n.redis, lease(l))
	}
	for _, l := range w.leaves {
		n.leaves = append(n.leaves, lease(l))
	}
	e := w.e
	n.e = &entry{
		name: e.name, state: e.state, lease: lease(e.lease), hold: hold(e.hold), wanted: e.wanted, released: e.released,
		read: lease(e.read), joinUntil: e.joinUntil, takenAt: e.takenAt,
	}
	if e.readers != nil {
		n.e.readers = make(map[*Hold]struct{})
		for h := range e.readers {
			n.e.readers[hold(h)] = struct{}{}
		}
	}
	for side := range e.queues {
		n.e.delegates[side] = call(e.delegates[side])
		for _, c := range e.queues[side] {
			n.e.queues[side] = append(n.e.queues[side], call(c))
		}
		n.order[side] = slices.Clone(w.order[side])
	}
	return n
}

// key is the same for states that behave alike: times count from now, as far as they matter.
func (w *world) key() string {
	var b []byte
	var leases []*Lease
	put := func(xs ...int) {
		for _, x := range xs {
			b = append(b, byte(x+2))
		}
	}
	is := func(x bool) int {
		if x {
			return 1
		}
		return 0
	}
	num := func(l *Lease) {
		n := slices.Index(leases, l)
		switch {
		case l == nil:
			put(-1)
			return
		case n < 0:
			n = len(leases)
			leases = append(leases, l)
			put(n, int(max(l.Deadline.Load()-w.now, -1)), int(max(l.Start+window-w.now, 0)), int(l.Top-l.Token),
				is(l.Known.Load() >= w.heard), is(slices.Contains(w.redis, l)))
			return
		}
		put(n)
	}
	hold := func(h *Hold) {
		switch {
		case h == nil:
			put(-1)
		case h.State() != Live:
			put(int(h.State()), int(h.calls.Load()))
		default:
			put(5, int(h.calls.Load()), is(h.Keep > 0))
			num(h.Lease)
		}
	}
	who := func(c *Call) { put(slices.IndexFunc(w.callers, func(x caller) bool { return x.c == c && c != nil })) }
	for _, c := range w.callers {
		put(int(c.phase), is(c.first))
		hold(c.hold)
		num(c.join)
		if c.c != nil {
			put(int(c.c.state), is(c.c.refused), len(c.c.C))
			hold(c.c.hold)
		}
	}
	for _, o := range w.owners {
		if s := o.sections[key]; s != nil {
			hold(s.holds[0])
			hold(s.holds[1])
			who(s.first)
		}
		put(-2)
	}
	e := w.e
	put(int(e.state), is(e.wanted), len(e.readers), int(max(e.joinUntil-w.now, 0)), is(w.other), is(w.heard == Never))
	hold(e.hold)
	for _, l := range []*Lease{e.lease, e.read, w.kept} {
		num(l)
	}
	if c := w.crowd.hold; c != nil && c.State() == Live {
		hold(c)
	}
	for side := range e.queues {
		who(e.delegates[side])
		put(w.order[side]...)
		put(-2)
	}
	for _, l := range w.leaves {
		num(l)
	}
	put(-2)
	for _, l := range w.redis {
		num(l)
	}
	return string(b)
}

// fault is a broken invariant.
type fault struct{ error }

func (w *world) failIf(broken bool, format string, args ...any) {
	if broken {
		panic(fault{fmt.Errorf(format, args...)})
	}
}

func (w *world) valid(l *Lease) bool {
	return l != nil && l.Valid(w.now) && slices.Contains(w.redis, l)
}

// free reports whether Redis would grant the lock to a writer, or to a reader.
func (w *world) free(reads bool) bool {
	return !w.other && !slices.ContainsFunc(w.redis, func(l *Lease) bool { return l.Valid(w.now) && !(reads && l.Top == 0) })
}

func (w *world) grant(reads bool) *Lease {
	l := &Lease{Takes: length}
	if !reads {
		l.Token, l.Top = 1, block
	}
	l.Deadline.Store(w.now + length)
	l.Known.Store(w.now)
	w.redis = append(w.redis, l)
	return l
}

// release begins the release of l, which a step has asked for.
func (w *world) release(l *Lease) {
	w.failIf(slices.Contains(w.leaves, l), "released twice")
	w.leaves = append(w.leaves, l)
}

// lose has l lost, in Redis too.
func (w *world) lose(l *Lease) {
	w.redis = slices.DeleteFunc(w.redis, func(r *Lease) bool { return r == l })
	if l == w.kept {
		w.kept = nil
	}
	hs, _ := w.e.lost(l, errors.New("lost"), w.now)
	for _, h := range hs {
		w.failIf(h.State() != Lost, "a hold of a lost lease is %d", h.State())
	}
}

// begin has an actor begin a call.
func (w *world) begin(i int) {
	a, c := w.actors[i], &w.callers[i]
	c.c = &Call{
		Name: "a", Reads: a.reads, Try: a.try, Length: length, C: make(chan struct{}, 1), Owner: w.owner(i),
	}
	if a.keep {
		c.c.Keep = 1
	}
	if a.crowd {
		c.c.Crowd = w.crowd
	}
	w.enter(i)
}

func (w *world) owner(i int) *Owner {
	if o := w.actors[i].owner; o >= 0 {
		return w.owners[o]
	}
	return nil
}

func (w *world) enter(i int) {
	c := &w.callers[i]
	if o := w.owner(i); o != nil {
		for _, reads := range []bool{false, true} {
			if h := o.Held(key, reads); h != nil && h.State() == Live && !h.Lease.Valid(w.now) {
				w.lose(h.Lease)
			}
		}
		lost := o.Lapsed(key) != nil
		e, h, _, _ := o.Enter(key, c.c.Reads, false, c.c)
		w.failIf(lost && e != Lapsed, "an owner enters beside a lost hold")
		switch e {
		case Entered:
			w.got(i, h)
			return
		case Lapsed, Upgrading:
			*c = caller{}
			return
		case Follow:
			if c.phase = follows; c.c.Try {
				*c = caller{}
			}
			return
		}
		c.first = true
		if c.c.Reads && o.Held(key, false) != nil { // its owner writes: it asks for itself, which is not explored
			w.done(i, nil)
			return
		}
	}
	c.c.state, c.c.refused, c.c.since = outside, false, Never
	if c.c.Reads {
		writers := w.e.state == asking || len(w.e.queues[0]) > 0
		s := w.e.rlock(c.c, w.now)
		w.failIf(s.Do == Enter && writers, "a reader joins before a writer that waits")
		w.act(i, s)
	} else {
		w.act(i, w.e.lock(c.c, w.heard, w.now))
	}
}

// act does what a step says to an actor.
func (w *world) act(i int, s Step) {
	c := &w.callers[i]
	switch s.Do {
	case Enter:
		if s.Kept {
			w.kept = nil
		}
		if h := s.Hold; h.Passed && h.calls.Load() == 1 && !h.Reads {
			left := h.Lease.Deadline.Load() - w.now
			w.failIf(h.Since == w.now && left < length/2, "a hold begins with %d of %d", left, length)
			w.failIf(h.Token > h.Lease.Top || h.Token < 2, "token %d of a block of %d", h.Token, h.Lease.Top)
			w.failIf(s.Kept && h.Lease.Known.Load() < w.heard, "taken over though messages were missed")
		}
		if !s.Hold.Lease.Valid(w.now) {
			w.lose(s.Hold.Lease)
		}
		w.done(i, s.Hold)
	case Refuse:
		w.left(i)
		w.done(i, nil)
	case Lose:
		w.lose(s.Lease)
		w.enter2(i)
	case Ask:
		c.phase, c.join = asksNow, s.Lease
	case Release:
		w.kept = nil
		w.release(s.Lease)
		fallthrough
	case Wait:
		c.phase = waits
	default:
		w.failIf(true, "a call is told to do %d", s.Do)
	}
}

// enter2 is the table's part of enter again.
func (w *world) enter2(i int) { w.act(i, w.e.rlock(w.callers[i].c, w.now)) }

// inOrder checks that the calls that have left a queue are those that came first.
func (w *world) inOrder() {
	for side := range w.order {
		var now []int
		for _, c := range w.e.queues[side] {
			now = append(now, slices.IndexFunc(w.callers, func(x caller) bool { return x.c == c }))
		}
		stays := false
		for _, i := range w.order[side] {
			switch {
			case slices.Contains(now, i):
				stays = true
			case stays && i != w.leaving && w.callers[i].c.state != turned:
				w.failIf(true, "call %d overtakes: %v of %v wait", i, now, w.order[side])
			}
		}
		w.order[side] = now
	}
}

// left has the table forget the call of an actor, and gives back what it got.
func (w *world) left(i int) {
	if h := w.e.left(w.callers[i].c, w.now); h != nil {
		w.unlock(h)
	}
}

// done ends the acquisition of an actor, who has h or nothing.
func (w *world) done(i int, h *Hold) {
	c := &w.callers[i]
	if c.first {
		has, lapsed := w.owner(i).Settle(key, c.c.Reads, false, c.c, h, h != nil)
		c.first = false
		if h != nil && has != h {
			w.unlock(h)
		}
		if h = has; lapsed != nil {
			h = nil
		}
	}
	if h == nil {
		*c = caller{}
		return
	}
	w.got(i, h)
}

func (w *world) got(i int, h *Hold) {
	w.callers[i] = caller{phase: holds, hold: h}
}

// unlock ends one call of h.
func (w *world) unlock(h *Hold) {
	if h.State() == Live && !h.Lease.Valid(w.now) {
		w.lose(h.Lease)
	}
	ok, last := h.Leave(false)
	w.failIf(!ok, "a call was not counted")
	if !last {
		return
	}
	var s Step
	waits := [2]int{len(w.e.queues[0]), len(w.e.queues[1])}
	lease := h.Lease
	live := h.State() == Live
	if h.Reads {
		s = w.e.runlock(h, w.now)
	} else {
		s = w.e.unlock(h, h.Owner == nil || !h.Owner.Reads(key), true, window, w.heard, w.now)
		if next := w.e.hold; live && w.e.state == held {
			w.failIf(waits[1] > 0 || w.e.delegates[1] != nil, "passed on before readers")
			w.failIf(w.now >= lease.Start+window, "passed on after the window")
			w.failIf(next.Token <= h.Token, "token %d after %d", next.Token, h.Token)
		}
	}
	if h.Owner != nil {
		h.Owner.Left(key, h)
	}
	switch s.Do {
	case Release:
		w.release(s.Lease)
	case Keep:
		w.failIf(w.heard == Never, "kept though no messages are heard")
		w.failIf(waits != [2]int{}, "kept though others wait")
		w.failIf(w.kept != nil, "kept twice")
		w.kept = s.Lease
	case Nothing:
	default:
		w.failIf(true, "an unlock is told to do %d", s.Do)
	}
}

// steps calls try with every step that is possible now.
func (w *world) steps(try func(name string, do func(w *world))) {
	for i := range w.actors {
		c := &w.callers[i]
		name := func(what string) string { return fmt.Sprint(what, " ", i) }
		switch c.phase {
		case idle:
			try(name("call"), func(w *world) { w.begin(i) })
		case holds:
			try(name("unlock"), func(w *world) {
				h := w.callers[i].hold
				w.callers[i] = caller{}
				w.unlock(h)
			})
		case follows:
			if w.owner(i).sections[key] == nil || w.owner(i).sections[key].first == nil {
				try(name("follow"), func(w *world) { w.callers[i].phase = idle; w.enter(i) })
			}
			try(name("cancel"), func(w *world) { w.callers[i] = caller{} })
		case waits:
			if len(c.c.C) > 0 {
				try(name("wake"), func(w *world) {
					c := &w.callers[i]
					<-c.c.C
					s := w.e.next(c.c)
					w.failIf(s.Do == Wait, "woken for nothing")
					w.act(i, s)
				})
			}
			try(name("cancel"), func(w *world) { w.leaving = i; w.left(i); w.done(i, nil) })
		case asksNow, waitsIn:
			try(name("cancel"), func(w *world) { w.left(i); w.done(i, nil) })
			w.answers(i, name, try)
		}
	}
	if w.e.lease != nil && slices.Contains(w.redis, w.e.lease) {
		try("recall", func(w *world) {
			l := w.e.lease
			if s := w.e.recalled(l, w.now); s.Do == Release {
				w.kept = nil
				w.release(s.Lease)
			}
			w.failIf(w.e.state == kept, "kept after a recall")
		})
	}
	for n := range w.redis {
		try("force", func(w *world) { w.lose(w.redis[n]) })
	}
	if w.kept != nil {
		try("drop", func(w *world) {
			l := w.kept
			w.kept = nil
			s := w.e.dropped(l, w.now)
			w.failIf(s.Do != Release, "what was kept is not released")
			w.release(s.Lease)
		})
	}
	for n := range w.leaves {
		try("released", func(w *world) {
			l := w.leaves[n]
			w.leaves = slices.Delete(w.leaves, n, n+1)
			w.redis = slices.DeleteFunc(w.redis, func(r *Lease) bool { return r == l })
			w.e.releasedLease(l, w.now)
		})
	}
	if w.free(false) {
		try("other", func(w *world) { w.other = true })
	}
	if w.other {
		try("other goes", func(w *world) { w.other = false })
	}
	try("time", func(w *world) {
		w.now++
		for _, l := range slices.Clone(w.redis) { // the watchdog
			if !l.Valid(w.now) {
				w.lose(l)
			}
		}
	})
	try("deaf", func(w *world) { w.heard = Never })
	if w.heard == Never {
		try("heard", func(w *world) { w.heard = w.now })
	}
}

// answers are what Redis may answer a delegate.
func (w *world) answers(i int, name func(string) string, try func(string, func(*world))) {
	c := &w.callers[i]
	if c.join != nil && slices.Contains(w.redis, c.join) && c.join.Valid(w.now) {
		try(name("may share"), func(w *world) { w.readGranted(i, w.callers[i].join, false) })
	}
	if w.free(c.c.Reads) && len(w.redis) < 3 {
		try(name("grant"), func(w *world) {
			c := &w.callers[i]
			l := w.grant(c.c.Reads)
			if c.c.Reads {
				w.readGranted(i, l, true)
				return
			}
			w.done(i, w.e.granted(c.c, l, w.now))
		})
	} else if c.phase == asksNow && !w.free(c.c.Reads) {
		try(name("taken"), func(w *world) {
			c := &w.callers[i]
			if c.c.Try {
				w.left(i)
				w.done(i, nil)
				return
			}
			w.e.refused(c.c, w.now)
			c.phase, c.join = waitsIn, nil
		})
	}
}

func (w *world) readGranted(i int, l *Lease, fresh bool) {
	c := &w.callers[i]
	s, spare := w.e.grantedRead(c.c, l, fresh, w.now+window, w.now)
	if s.Do == Lose {
		w.lose(s.Lease)
		s, spare = w.e.grantedRead(c.c, l, fresh, w.now+window, w.now)
	}
	if spare != nil {
		w.release(spare)
	}
	w.act(i, s)
}

// check checks the invariants.
func (w *world) check() {
	e := w.e
	readers, writer := 0, 0
	for i, c := range w.callers {
		if c.phase == holds && c.hold.State() == Live && w.valid(c.hold.Lease) {
			if c.hold.Reads {
				readers++
			} else if j := slices.IndexFunc(w.callers[:i], func(o caller) bool { return o.phase == holds && o.hold == c.hold }); j < 0 {
				writer++
			}
		}
		queue := slices.Index(e.queues[0], c.c) >= 0 || slices.Index(e.queues[1], c.c) >= 0
		delegate := c.c != nil && (e.delegates[0] == c.c || e.delegates[1] == c.c)
		switch c.phase {
		case waits:
			w.failIf(!queue && len(c.c.C) == 0, "call %d waits for nothing", i)
		case asksNow, waitsIn:
			w.failIf(!delegate, "call %d asks, and is no delegate", i)
		case idle, follows, holds:
			w.failIf(c.c != nil && (queue || delegate), "call %d is in the table", i)
		}
		if delegate && c.phase == waits {
			w.failIf(len(c.c.C) == 0, "delegate %d does not know", i)
		}
	}
	w.failIf(writer > 1 || writer == 1 && readers > 0, "%d writers and %d readers", writer, readers)
	w.failIf(writer == 1 && w.other, "another process has the lock, too")
	w.failIf((e.state == asking) != (e.delegates[0] != nil), "state %d", e.state)
	w.failIf(len(e.queues[0]) > 0 && e.state == free, "nobody asks for the writers that wait")
	w.failIf(len(e.queues[0]) > 0 && e.state == kept, "writers wait for what is kept")
	w.failIf(len(e.queues[1]) > 0 && e.delegates[1] == nil, "nobody asks for the readers that wait")
	w.failIf((e.read != nil) != (len(e.readers) > 0), "%d readers", len(e.readers))
	w.failIf(e.state == kept && w.kept != e.lease, "the keeper does not know")
	w.failIf(e.state == releasing && !slices.Contains(w.leaves, e.lease), "nobody releases")
	for _, l := range w.redis {
		w.failIf(l != e.lease && l != e.read && !slices.Contains(w.leaves, l), "a lease is forgotten")
	}
	for _, h := range append(slices.Collect(maps.Keys(e.readers)), e.hold) {
		had := slices.ContainsFunc(w.callers, func(c caller) bool { return c.hold == h || c.c != nil && c.c.hold == h })
		w.failIf(h != nil && h.State() == Live && !had, "nobody has a hold")
	}
	if w.quiet() {
		w.failIf(!e.empty(), "something stays behind")
		for _, o := range w.owners {
			w.failIf(len(o.sections) > 0, "an owner remembers")
		}
	}
}

// quiet reports whether nothing is held or under way.
func (w *world) quiet() bool {
	busy := slices.ContainsFunc(w.callers, func(c caller) bool { return c.phase != idle })
	return !busy && len(w.redis) == 0 && len(w.leaves) == 0
}

// explore visits the states that actors can reach, and returns how many there are.
func explore(t *testing.T, actors ...actor) int {
	t.Helper()
	first := newWorld(actors)
	seen, next := map[string]bool{first.key(): true}, []*world{first}
	for len(next) > 0 {
		w := next[0]
		next[0], next = nil, next[1:]
		w.steps(func(name string, do func(*world)) {
			n := w.clone()
			n.trace = &trace{name, w.trace}
			if err := n.try(do); err != nil {
				t.Fatalf("%v, after\n%v", err, n.trace)
			}
			if k := n.key(); !seen[k] {
				seen[k] = true
				next = append(next, n)
			}
		})
	}
	return len(seen)
}

// try does a step, and checks the invariants.
func (w *world) try(do func(*world)) (err error) {
	defer func() {
		if f, ok := recover().(fault); ok {
			err = f
		}
	}()
	do(w)
	w.leaves = slices.DeleteFunc(w.leaves, func(l *Lease) bool { return l != w.e.lease && !slices.Contains(w.redis, l) })
	w.inOrder()
	w.check()
	return nil
}

// Every state of three calls is visited, of writers, readers and owners, with keeping, recalls,
// losses and cancels.
func TestEveryStateOfThreeCalls(t *testing.T) {
	start := time.Now()
	writer, reader := actor{owner: -1}, actor{owner: -1, reads: true}
	keeper, tries := actor{owner: -1, keep: true}, actor{owner: -1, try: true}
	for _, c := range []struct {
		what   string
		actors []actor
	}{
		{"writers", []actor{writer, writer, writer}},
		{"writers that keep", []actor{keeper, keeper, tries}},
		{"writers and readers", []actor{writer, reader, reader}},
		{"a reader", []actor{writer, writer, reader}},
		{"readers of one value", []actor{writer, {owner: -1, reads: true, crowd: true}, {owner: -1, reads: true, crowd: true}}},
		{"readers that try", []actor{writer, reader, {owner: -1, reads: true, try: true}}},
		{"an owner with two calls", []actor{{owner: 0}, {owner: 0}, writer}},
		{"two owners", []actor{{owner: 0}, {owner: 1}, {owner: 0, reads: true}}},
		{"an owner that keeps", []actor{{owner: 0, keep: true}, {owner: 0, keep: true}, {owner: 1, keep: true}}},
		{"readers of two owners", []actor{{owner: 0, reads: true}, {owner: 0, reads: true}, {owner: 1}}},
		{"writers that try, and keep", []actor{keeper, tries, tries}},
	} {
		start := time.Now()
		n := explore(t, c.actors...)
		t.Logf("%s: %d states in %v", c.what, n, time.Since(start))
		require.Greater(t, n, 100, c.what)
	}
	t.Log(time.Since(start))
}
