package sim_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"
)

// A plan is what happens in a world. It depends on the seed alone.
type plan struct {
	seed    uint64
	row     *row
	names   []string // of the locks
	enough  int      // holds after which the actors stop; 0: they do all
	servers int      // 3 if the world has Redlocks
	procs   []procPlan
	actors  []actorPlan
	faults  []fault       // in order of time
	lease   time.Duration // the longest of any process
}

type procPlan struct {
	delay, lease, tenure time.Duration
}

// An actor is a goroutine of a process.
type actorPlan struct {
	proc int
	ops  []op
}

// An op is one Lock or TryLock, its section, and its Unlock.
type op struct {
	parts    []part        // more than one: a Group
	pause    time.Duration // before it
	try      bool
	patience time.Duration // of Lock's context; 0: no end
	section  time.Duration
	heeds    bool // the section ends with a loss
	owned    bool // under a context with an owner
	reenter  bool // locks again within the section
	reads    bool // a writer reads as well, and reads on when it has unlocked
	lease    time.Duration
	fixed    time.Duration
	maxHold  time.Duration
}

// A part is a lock, or one member of a Group.
type part struct {
	kind kind
	name string
}

type kind uint8

const (
	mutex kind = iota
	fair
	writer
	reader
	redlock
)

func (k kind) String() string {
	return [...]string{"Mutex", "FairMutex", "writer", "reader", "Redlock"}[k]
}

func (p part) String() string { return p.kind.String() + " " + p.name }

// excludes reports whether two parts exclude each other.
func (p part) excludes(q part) bool {
	return p.name == q.name && (p.kind != reader || q.kind != reader)
}

// themes are the locks that a world has. What comes first is used most.
var themes = [][][]part{
	{{{mutex, "a"}}},
	{{{fair, "a"}}},
	{{{mutex, "a"}}, {{fair, "a"}}},
	{{{reader, "rw"}}, {{writer, "rw"}}},
	{{{reader, "rw"}}, {{writer, "rw"}}},
	{
		{{mutex, "a"}, {mutex, "b"}}, {{mutex, "a"}}, {{fair, "b"}}, {{mutex, "b"}, {mutex, "c"}}, {{writer, "rw"}},
		{{fair, "b"}, {writer, "rw"}}, {{mutex, "a"}, {reader, "rw"}},
	},
	{{{redlock, "red"}}},
	{{{mutex, "a"}}, {{redlock, "red"}}, {{reader, "rw"}}, {{writer, "rw"}}, {{fair, "b"}}},
}

func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 0x5e1f))
	p := &plan{seed: seed, servers: 1, row: rowOf(r)}
	theme := pick(r, either(p.row.themes, themes)...)
	for _, parts := range theme {
		if parts[0].kind == redlock {
			p.servers = 3
		}
		for _, part := range parts {
			if !slices.Contains(p.names, part.name) {
				p.names = append(p.names, part.name)
			}
		}
	}
	most := 7 / p.servers // a process has a session on each
	for range 2 + min(r.IntN(most), r.IntN(most)) {
		proc := procPlan{
			lease:  pick(r, either(p.row.leases, usual)...),
			tenure: pick(r, 0, 10*time.Millisecond, 200*time.Millisecond),
		}
		if chance(r, 0.7) {
			proc.delay = upTo(r, 20*time.Millisecond)
			if p.servers > 1 {
				proc.delay /= 5 // a Redlock gives a server little time to answer
			}
		}
		p.procs = append(p.procs, proc)
	}
	p.row.act(r, p, theme)
	for _, proc := range p.procs {
		p.lease = max(p.lease, proc.lease)
	}
	p.faults = append(p.faults, newFaults(r, p, theme)...)
	return p
}

// either returns the first of two slices that is not empty.
func either[T any](of, or []T) []T {
	if len(of) > 0 {
		return of
	}
	return or
}

// actAnyhow gives actors a few ops each.
func actAnyhow(r *rand.Rand, p *plan, theme [][]part) {
	left := 12 + r.IntN(10) // ops
	for i := 0; left > 0; i++ {
		actor := actorPlan{proc: i % len(p.procs)}
		for range min(left, 1+r.IntN(4)) {
			actor.ops = append(actor.ops, newOp(r, theme, p.procs[actor.proc].lease))
			left--
		}
		p.actors = append(p.actors, actor)
	}
}

func newOp(r *rand.Rand, theme [][]part, lease time.Duration) op {
	o := op{
		parts: theme[min(r.IntN(len(theme)), r.IntN(len(theme)))],
		pause: upTo(r, pick(r, 50*time.Millisecond, time.Second)),
		heeds: chance(r, 0.5),
		owned: chance(r, 0.4),
	}
	switch n := r.IntN(100); {
	case n < 50:
		o.section = upTo(r, 30*time.Millisecond)
	case n < 90:
		o.section = upTo(r, time.Second)
	default:
		o.section = lease/2 + upTo(r, lease)
	}
	switch n := r.IntN(100); {
	case n < 20:
		o.try = true
	case n < 50:
		o.patience = upTo(r, pick(r, 50*time.Millisecond, 2*time.Second))
	}
	if len(o.parts) == 1 && o.parts[0].kind != redlock {
		switch n := r.IntN(100); {
		case n < 10:
			o.fixed = 100*time.Millisecond + upTo(r, lease)
		case n < 15:
			o.maxHold = 100*time.Millisecond + upTo(r, lease)
		case n < 20:
			o.lease = 500*time.Millisecond + upTo(r, lease)
		}
	}
	if o.owned {
		o.reenter = chance(r, 0.4)
		o.reads = len(o.parts) == 1 && o.parts[0].kind == writer && chance(r, 0.5)
	}
	return o
}

func (o *op) String() string {
	return fmt.Sprint(o.parts) + said("try", o.try, "owned", o.owned, "re-enters", o.reenter, "reads as well", o.reads,
		"patience", o.patience, "section", o.section, "lease", o.lease, "fixed lease", o.fixed, "max hold", o.maxHold)
}

// said joins names and values, without those that are zero.
func said(pairs ...any) (s string) {
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1]; v != nil && !reflect.ValueOf(v).IsZero() {
			s += fmt.Sprintf(", %s %v", pairs[i], v)
		}
	}
	return s
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// upTo returns a time of at least 1 µs, so that few times are equal.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(1+r.Int64N(int64(d/time.Microsecond))) * time.Microsecond
}
