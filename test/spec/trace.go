package spec

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Checker compares a trace with the specification: each script must reply, and say, what its
// method does in the state that the scripts before it have made.
type Checker struct {
	Lossy bool // data may be lost, or locks forced open: holds are not checked
	Extra Time // by how much more keys may end early or late
	Steps int  // that were accepted
	Aside int  // steps that the specification does not know

	locks map[string][]*Lock // the states that a lock may be in, mostly one
	holds map[string]map[ID]int
	slop  map[string]Time // how long the script took that set the end of a lock
	blind map[string]bool // locks of which too little is known: a key is something else
}

// slack is by how much the end of a key may differ: Redis ends it a moment later.
const slack = 3 * Millisecond

// Check checks a whole trace. The error tells the first step that is wrong.
func (c *Checker) Check(trace []Event) error {
	for i := range trace {
		if err := c.Step(&trace[i]); err != nil {
			var before []string
			for j := max(0, i-8); j < i; j++ {
				before = append(before, "    "+trace[j].String())
			}
			return fmt.Errorf("step %d of %d is wrong: %w\nThe steps before it:\n%s",
				i+1, len(trace), err, strings.Join(before, "\n"))
		}
	}
	return nil
}

// Forget makes the checker forget all locks: the server has lost its data.
func (c *Checker) Forget() { c.locks, c.holds = nil, nil }

// A part is what a script does with one lock.
type part struct {
	lock string
	run  func(*Run) string // what is wrong with the reply; empty: nothing
	of   ID                // whose script it is
}

// An outcome is what a script may have done to its locks.
type outcome struct {
	locks map[string]*Lock
	seen  map[string]bool // locks of which a waiter was told to wait: that holds for all behind it
	out   []Message
}

// Step checks one step.
func (c *Checker) Step(e *Event) error {
	if c.locks == nil {
		c.locks, c.holds = map[string][]*Lock{}, map[string]map[ID]int{}
		c.blind, c.slop = map[string]bool{}, map[string]Time{}
	}
	switch e.Name {
	case Begins, Ends:
		return c.hold(e)
	}
	parts, known := e.parts()
	if !known {
		for _, key := range e.Keys {
			c.blind[key] = true
		}
	}
	if e.Err != "" { // a key is something else
		for _, p := range parts {
			c.blind[p.lock] = true
		}
	}
	all := len(parts)
	parts = slices.DeleteFunc(parts, func(p part) bool { return c.blind[p.lock] })
	if !known || all > 0 && len(parts) == 0 {
		c.Aside++
		return nil
	}
	e.slop = e.Took + c.Extra
	for _, p := range parts {
		e.slop = max(e.slop, e.Took+c.slop[p.lock]+c.Extra)
	}
	possible, wrong := []outcome{{locks: map[string]*Lock{}, seen: map[string]bool{}}}, ""
	for i := range parts {
		possible, wrong = c.after(e, &parts[i], possible)
		if len(possible) == 0 {
			return fmt.Errorf("%v\n  %s\n%s", e, wrong, c.describe(parts[i].lock))
		}
	}
	said := e.said()
	agreeing := slices.DeleteFunc(slices.Clone(possible), func(o outcome) bool { return all == len(parts) && !alike(said, o.out) })
	if len(agreeing) == 0 {
		lock := ""
		if len(parts) > 0 {
			lock = parts[0].lock
		}
		return fmt.Errorf("%v\n  the specification says %s\n  but it said       %s\n%s",
			e, tellAll(possible[0].out), tellAll(said), c.describe(lock))
	}
	c.take(e, parts, agreeing)
	c.Steps++
	return c.stillHeld(e)
}

// after returns what is possible after a part of a script, or why nothing is.
func (c *Checker) after(e *Event, p *part, before []outcome) (possible []outcome, wrong string) {
	for _, o := range before {
		states := c.locks[p.lock]
		if l := o.locks[p.lock]; l != nil {
			states = []*Lock{l}
		} else if len(states) == 0 {
			states = []*Lock{{}}
		}
		for _, state := range states {
			for _, late := range state.edges(e.At, e.slop) {
				for pick := range state.picks() {
					r := e.newRun(state.Clone(), p)
					r.Pick, r.seen = pick, o.seen[p.lock]
					r.Expire(e.At.ms() - late)
					if bad := p.run(r); bad != "" {
						if wrong == "" || late == 0 {
							wrong = bad
						}
						continue
					}
					n := outcome{
						locks: map[string]*Lock{p.lock: r.Lock}, out: append(slices.Clone(o.out), r.Out...),
						seen: maps.Clone(o.seen),
					}
					if r.seen {
						n.seen[p.lock] = true
					}
					for name, l := range o.locks {
						if name != p.lock {
							n.locks[name] = l
						}
					}
					possible = append(possible, n)
				}
			}
		}
	}
	return possible, wrong
}

// edges returns by how much later keys may expire.
func (l *Lock) edges(now, slop Time) []Time {
	near := func(ends Time) bool { return ends != 0 && max(now-ends, ends-now) <= slack+slop+Millisecond }
	some := near(l.Ends) || near(l.Fence.Ends) || near(l.Queue.Ends) || near(l.Readers.Ends)
	for _, h := range l.Holders {
		some = some || near(h.Ends)
	}
	if some {
		late := []Time{0, Millisecond, 2 * Millisecond, slack, -Millisecond, -2 * Millisecond, -slack}
		if slop >= Millisecond {
			late = append(late, slack+slop.ms(), -slack-slop.ms())
		}
		return late
	}
	return []Time{0}
}

// picks returns how many holders a script may find that asks for one.
func (l *Lock) picks() int {
	if l.Mode == "" {
		return 1
	}
	return max(len(l.Holders), 1)
}

// take notes the states that the locks of a script may be in.
func (c *Checker) take(e *Event, parts []part, possible []outcome) {
	for _, p := range parts {
		was := c.locks[p.lock]
		var states []*Lock
		for _, o := range possible {
			l := o.locks[p.lock]
			known := slices.ContainsFunc(states, func(s *Lock) bool { return s.same(l) })
			if l != nil && !known && len(states) < 16 {
				states = append(states, l)
			}
		}
		c.locks[p.lock] = states
		if len(was) != 1 || len(states) != 1 || was[0].Ends != states[0].Ends {
			c.slop[p.lock] = e.Took
		} else {
			c.slop[p.lock] = max(c.slop[p.lock], e.Took)
		}
	}
}

func (l *Lock) same(o *Lock) bool { return fmt.Sprint(*l) == fmt.Sprint(*o) }

// hold notes what a client says.
func (c *Checker) hold(e *Event) error {
	lock, id := e.Keys[0], ID(e.Args[0])
	if c.holds[lock] == nil {
		c.holds[lock] = map[ID]int{}
	}
	c.Steps++
	if e.Name == Ends {
		if c.holds[lock][id]--; c.holds[lock][id] <= 0 {
			delete(c.holds[lock], id)
		}
		return nil
	}
	c.holds[lock][id]++
	return c.stillHeld(e)
}

// stillHeld checks that what clients are sure of is theirs in Redis.
func (c *Checker) stillHeld(e *Event) error {
	if c.Lossy {
		return nil
	}
	for lock, ids := range c.holds {
		for id := range ids {
			if c.blind[lock] {
				continue
			}
			held := slices.ContainsFunc(c.locks[lock], func(l *Lock) bool {
				l = l.Clone()
				l.Expire(e.At.ms() - slack - e.slop - c.Extra)
				return slices.ContainsFunc(l.Holders, func(h Holder) bool { return h.ID == id && !h.Rests })
			})
			if !held {
				return fmt.Errorf("%v\n  a client is sure of %s as %s, which does not have it\n%s",
					e, lock, id, c.describe(lock))
			}
		}
	}
	return nil
}

// describe tells what is known of a lock.
func (c *Checker) describe(name string) string {
	var b strings.Builder
	for i, l := range c.locks[name] {
		if i > 0 {
			b.WriteString("\nor ")
		}
		fmt.Fprintf(&b, "%s was before: %v", name, l)
	}
	if len(c.locks[name]) == 0 {
		fmt.Fprintf(&b, "nobody had touched %s before", name)
	}
	return b.String()
}

func (l *Lock) String() string {
	var b strings.Builder
	if l.Free() {
		b.WriteString("free")
	}
	for _, h := range l.Holders {
		fmt.Fprintf(&b, "held by %s, ", h.ID)
		if h.Rests {
			b.WriteString("which has released it, ")
		}
	}
	if !l.Free() {
		fmt.Fprintf(&b, "until %v", l.Ends)
	}
	fmt.Fprintf(&b, "; last token %d of %q until %v", l.Fence.Token, l.Fence.Of, l.Fence.Ends)
	for _, q := range []Queue{l.Queue, l.Readers} {
		if len(q.Entries) == 0 {
			continue
		}
		b.WriteString("; queue")
		for _, e := range q.Entries {
			fmt.Fprintf(&b, " %s since %v", e.ID, e.Score)
		}
		fmt.Fprintf(&b, ", until %v", q.Ends)
	}
	return b.String()
}

func (t Time) String() string {
	if t < 0 {
		return "-" + (-t).String()
	}
	return fmt.Sprintf("%d.%06d", t/Second, t%Second)
}

// newRun returns the run of a script that was traced.
func (e *Event) newRun(l *Lock, p *part) *Run {
	terms := OfScripts
	switch kind, _, _ := strings.Cut(e.Name, "_"); kind {
	case "read", "write":
		terms.QueueLives = 5 * Second
	case "permit":
		terms.QueueLives = 4 * Second
	}
	r := &Run{Lock: l, Terms: &terms, Now: e.At, Session: p.of.Session()}
	all := true // where sessions cannot be counted all are there
	for channel, n := range e.Listeners {
		if !strings.HasPrefix(channel, "relock_") {
			r.Listens = r.Listens || n > 0
		} else {
			all = false
		}
	}
	for _, p := range e.Published {
		if !strings.HasPrefix(p.Channel, "relock_") {
			r.Listens = r.Listens || p.Heard > 0
		}
	}
	counted := slices.Contains(e.Args, "numsub") || slices.Contains(e.Args, "shardnumsub")
	r.Here = func(session string) bool {
		if !counted && all {
			return true
		}
		for channel, n := range e.Listeners {
			if n > 0 && strings.HasPrefix(channel, "relock_") && strings.HasSuffix(channel, ":"+session) {
				return true
			}
		}
		return false
	}
	return r
}

// said returns what a script has published, one message for each hold id.
func (e *Event) said() (all []Message) {
	for _, p := range e.Published {
		m := Message{To: p.Channel[strings.LastIndexByte(p.Channel, ':')+1:]}
		if !strings.HasPrefix(p.Channel, "relock_") {
			all = append(all, Message{To: string(Redisson), Verb: p.Text})
			continue
		}
		verb, rest, _ := strings.Cut(p.Text, " ")
		words := strings.Fields(rest)
		if m.Verb = verb; verb == "poll" {
			for _, id := range words {
				m.ID = ID(id)
				all = append(all, m)
			}
			continue
		}
		if m.ID = ID(words[0]); verb == "granted" {
			token, slot, permit := strings.Cut(words[1], "/")
			m.Token, m.Slot = number(token), -1
			if permit {
				m.Slot = int(number(slot))
			}
			term, more := strings.CutPrefix(words[2], "+")
			m.Term, m.More = Time(number(term))*Millisecond, more
		}
		all = append(all, m)
	}
	return all
}

// alike reports whether two lists have the same messages, in any order. The script says only a hint
// of the hold id that is to poll.
func alike(a, b []Message) bool {
	a = hinted(a)
	for _, m := range hinted(b) {
		i := slices.Index(a, m)
		if i < 0 {
			return false
		}
		a = slices.Delete(a, i, i+1)
	}
	return len(a) == 0
}

func hinted(all []Message) []Message {
	all = slices.Clone(all)
	for i, m := range all {
		if m.Verb == "poll" {
			_, n, whole := strings.Cut(strings.TrimSuffix(string(m.ID), ":write"), ":")
			if whole {
				all[i].ID = ID(n[:min(len(n), 4)])
			}
		}
	}
	return all
}

func tellAll(all []Message) string {
	if len(all) == 0 {
		return "nothing"
	}
	var words []string
	for _, m := range all {
		w := fmt.Sprintf("%s %s to %s", m.Verb, m.ID, m.To)
		if m.Verb == "granted" {
			w += fmt.Sprintf(" (token %d, for %v, others wait: %v, slot %d)", m.Token, m.Term, m.More, m.Slot)
		}
		words = append(words, w)
	}
	return strings.Join(words, "; ")
}

var errShort = errors.New("a script has fewer arguments than its header says")

// args takes arguments one after the other.
type args struct{ of []string }

func (a *args) next() string {
	if len(a.of) == 0 {
		panic(errShort)
	}
	first := a.of[0]
	a.of = a.of[1:]
	return first
}
func (a *args) id() ID   { return ID(a.next()) }
func (a *args) ms() Time { return Time(number(a.next())) * Millisecond }

// entryOf reads an entry of a queue: a hold id, of a semaphore the limit, and the grant timeout.
func entryOf(text, score string) Entry {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Entry{}
	}
	e := Entry{ID: ID(words[0]), Grant: 5 * Second, Score: Time(number(score))}
	if len(words) > 1 {
		e.Grant = min(Time(number(words[len(words)-1]))*Millisecond, 5*Second)
	}
	if len(words) > 2 {
		e.Limit = int(number(words[1]))
	}
	return e
}

// parts returns what a script does, and whether the specification knows it.
func (e *Event) parts() (parts []part, known bool) {
	a := &args{e.Args}
	switch e.Name {
	case "mutex_acquire":
		ask := Ask{ID: a.id(), Lease: a.ms()}
		entry, score, of := a.next(), a.next(), a.id()
		ask.Entry, ask.Queue, ask.Ends = entryOf(entry, score), entry != "", of == Nobody
		if !ask.Queue {
			ask.Entry.Score = Time(number(score))
		}
		return e.one(ask.ID, func(r *Run) string { return e.agrees(0, r.MutexAcquire(ask)) }), true
	case "mutex_poll":
		return e.polls(3, 3, writers, (*Run).MutexPoll), true
	case "write_acquire":
		ask := Ask{ID: a.id(), Lease: a.ms()}
		entry, score, of := a.next(), a.next(), a.id()
		ask.Entry, ask.Queue, ask.Ends = entryOf(entry, score), entry != "", of == Nobody
		ask.Entry.Score = Time(number(score))
		return e.one(ask.ID, func(r *Run) string { return e.agrees(0, r.WriteAcquire(ask)) }), true
	case "read_acquire":
		ask := Ask{ID: a.id(), Lease: a.ms()}
		entry, queue, score := a.next(), a.next(), a.next()
		ask.Entry, ask.Queue = entryOf(entry, score), queue == "1"
		ask.Writer, ask.Join = a.id(), a.id()
		return e.one(ask.ID, func(r *Run) string { return e.agrees(0, r.ReadAcquire(ask)) }), true
	case "permit_acquire":
		ask := Ask{ID: a.id(), Lease: a.ms()}
		entry, queue, score, of := a.next(), a.next(), a.next(), a.id()
		ask.Entry, ask.Queue, ask.Ends = entryOf(entry, score), queue == "1", of == Nobody
		return e.one(ask.ID, func(r *Run) string { return e.agrees(0, r.PermitAcquire(ask)) }), true
	case "write_poll":
		return e.polls(4, 4, writers, (*Run).WritePoll), true
	case "read_poll":
		return e.polls(5, 4, readers, (*Run).ReadPoll), true
	case "permit_poll":
		return e.polls(3, 3, writers, (*Run).PermitPoll), true
	case "write_release", "read_release", "permit_release":
		id, _, rest := a.id(), a.next(), a.ms()
		release := map[string]func(*Run, ID, Time) int64{
			"write_release": (*Run).WriteRelease, "read_release": (*Run).ReadRelease,
			"permit_release": (*Run).PermitRelease,
		}[e.Name]
		return e.one(id, func(r *Run) string { return e.told(release(r, id, rest)) }), true
	case "permit_renew":
		return e.renewals((*Run).PermitRenew), true
	case "read_renew":
		return e.readRenewals(), true
	case "mutex_release":
		id, _, rest := a.id(), a.next(), a.ms()
		return e.one(id, func(r *Run) string { return e.told(r.MutexRelease(id, rest)) }), true
	case "renew":
		return e.renewals((*Run).Renew), true
	case "handoff":
		from, to, lease, of := a.id(), a.id(), a.ms(), a.id()
		a.next() // the note
		ticket := a.next() == "1"
		return e.one(to, func(r *Run) string { return e.exactly(r.Handoff(from, to, lease, of, ticket)) }), true
	case "raise":
		id, token, lease := a.id(), number(a.next()), a.ms()
		return e.one(id, func(r *Run) string { return e.exactly(told(r.Raise(id, token, lease))) }), true
	case "force":
		var some []ID
		for _, id := range e.Args[5:] {
			some = append(some, ID(id))
		}
		return e.one("", func(r *Run) string { return e.exactly(r.Force(some)) }), true
	case "inspect":
		return e.one("", func(r *Run) string { return "" }), true
	case Foreign:
		return e.one("", e.foreign), true
	}
	return nil, false
}

func (e *Event) one(of ID, run func(*Run) string) []part {
	return []part{{lock: e.Keys[0], run: run, of: of}}
}

// foreign does what a command of Redisson does to a Mutex. Redisson takes only a lock that is free
// or its own, and ends only what is its own: it looks first, in the same script.
func (e *Event) foreign(r *Run) string {
	ours := !r.Free() && !r.Holders[0].ID.OfRedisson()
	switch verb := e.Args[0]; {
	case verb == "hincrby" && !r.Free() && r.Holders[0].ID != ID(e.Args[1]):
		return fmt.Sprintf("Redisson takes a lock that %s has", r.Holders[0].ID)
	case verb == "hincrby" && r.Free():
		r.Holders, r.Ends = []Holder{{ID: ID(e.Args[1])}}, math.MaxInt64 // until it says pexpire
	case verb == "hincrby": // it enters again, or leaves one of its entries
	case ours || r.Free():
		return fmt.Sprintf("Redisson changes a lock that it does not have: %v", r.Holders)
	case verb == "pexpire":
		r.Ends = e.At.ms() + Time(number(e.Args[1]))*Millisecond
	case verb == "del":
		r.Holders, r.Ends = nil, 0
	}
	return ""
}

func writers(r *Run) *Queue { return &r.Queue }
func readers(r *Run) *Queue { return &r.Readers }

// polls returns the parts of a poll for many waiters, with so many keys and arguments each. What
// one waiter was replied holds for all of its session behind it.
func (e *Event) polls(
	keys, more int, queue func(*Run) *Queue, poll func(*Run, Entry) (Reply, bool),
) (parts []part) {
	for i := range len(e.Keys) / keys {
		entry := entryOf(e.Args[1+i*more], "")
		lock := e.Keys[i*keys]
		parts = append(parts, part{lock: lock, of: entry.ID, run: func(r *Run) string {
			if at := queue(r).Index(entry.ID); r.seen && at >= 0 {
				return e.agrees(3*i, Reply{N: number(e.Reply[3*i]), X: int64(queue(r).Entries[at].Score)})
			}
			reply, theirs := poll(r, entry)
			r.seen = r.seen || !reply.Granted() && reply.N > Tokenless && !theirs
			return e.agrees(3*i, reply)
		}})
	}
	return parts
}

// renewals returns the parts of renew.lua, or permit_renew.lua.
func (e *Event) renewals(renew func(*Run, ID, Time, bool) bool) (parts []part) {
	n := len(e.Keys) / 2
	if len(e.Keys) == 1 {
		n = 1
	}
	run, left := n, 0
	for i := range n {
		if left == 0 {
			left = int(number(e.Args[run]))
			run += 4
		}
		left--
		lease, ends := Time(number(e.Args[run-3]))*Millisecond, e.Args[run-2] == "1"
		id := ID(e.Args[i])
		gone := slices.Contains(e.Reply, fmt.Sprint(i+1))
		parts = append(parts, part{lock: e.Keys[i], of: id, run: func(r *Run) string {
			fence := r.Fence
			has := renew(r, id, lease, ends)
			if len(e.Keys) == 1 {
				r.Fence = fence // it was not given
			}
			if has == gone {
				return fmt.Sprintf("the specification says that the hold %s is there: %v", id, has)
			}
			return ""
		}})
	}
	return parts
}

// readRenewals returns the parts of read_renew.lua.
func (e *Event) readRenewals() (parts []part) {
	n := len(e.Keys) / 2
	run, left := n, 0
	for i := range n {
		if left == 0 {
			left = int(number(e.Args[run]))
			run += 2
		}
		left--
		lease, id := Time(number(e.Args[run-1]))*Millisecond, ID(e.Args[i])
		gone := slices.Contains(e.Reply, fmt.Sprint(i+1))
		parts = append(parts, part{lock: e.Keys[2*i], of: id, run: func(r *Run) string {
			if has := r.ReadRenew(id, lease); has == gone {
				return fmt.Sprintf("the specification says that the hold %s is there: %v", id, has)
			}
			return ""
		}})
	}
	return parts
}

// agrees compares three numbers of a reply. Times to live may differ a little.
func (e *Event) agrees(at int, want Reply) string {
	if len(e.Reply) < at+3 {
		return fmt.Sprintf("the specification replies %v", want)
	}
	got := Reply{number(e.Reply[at]), number(e.Reply[at+1]), number(e.Reply[at+2])}
	n, x := got.N == want.N, got.X == want.X
	if !want.Granted() && !got.Granted() && want.N > Tokenless && got.N > Tokenless {
		n = e.near(got.N, want.N)
	}
	if want.Granted() {
		x = e.near(got.X, want.X)
	}
	if n && x && got.Y == want.Y {
		return ""
	}
	return fmt.Sprintf("the specification replies %v, not %v", want, got)
}

func (e *Event) near(a, b int64) bool {
	return max(a-b, b-a) <= int64((slack+e.slop)/Millisecond)
}

// told compares how many clients of Redisson were told.
func (e *Event) told(want int64) string {
	got := number(strings.Join(e.Reply, ""))
	if min(got, 1) == want {
		return ""
	}
	return fmt.Sprintf("the specification replies %d, not %d", want, got)
}

func (e *Event) exactly(want int64) string {
	if got := number(strings.Join(e.Reply, "")); got != want {
		return fmt.Sprintf("the specification replies %d, not %d", want, got)
	}
	return ""
}
