package spec

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// Times and tokens in a state are relative to the present, so that a world which goes on as before
// comes back to a state that was seen.

// normalize makes the present the start of time.
func (w *World) normalize() {
	d := start - w.Now
	w.shiftServer(d)
	w.Now = start
	for i := range w.Calls {
		c := &w.Calls[i]
		c.Request.Sent += d
		if c.Polled != 0 {
			c.Polled = max(c.Polled+d, start-w.Lease-w.Term)
		}
		if c.Deadline != 0 {
			c.Deadline = max(c.Deadline+d, start-w.Lease)
		}
		if c.Request.Verb == None {
			c.Request = Request{}
		} else {
			c.Request.Sent = max(c.Request.Sent, start-w.Lease-w.Term)
		}
	}
	for i := range w.Sessions {
		for j := range w.Sessions[i].Cleanups {
			t := &w.Sessions[i].Cleanups[j]
			if t.Doubt += d; t.Doubt < start {
				t.Doubt = start
			}
		}
		slices.SortFunc(w.Sessions[i].Cleanups, func(a, b Cleanup) int { return compare(a.ID, b.ID) })
	}
	for i := range w.Strays {
		w.Strays[i].Until += d
	}
	w.rankScores()
	w.rankTokens()
	if w.Lock.Expire(w.Now); w.Lock.Free() || w.Lock.Holders[0].ID != w.Last {
		w.Last = ""
	}
}

func compare(a, b ID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// stepped has the server's clock step, by which its times and tokens are compared.
func (w *World) stepped(d Time) { w.shiftServer(-d) }

// shiftServer moves what was written by the server's clock.
func (w *World) shiftServer(d Time) {
	token := func(t *int64) {
		if *t != 0 {
			*t += int64(d/Millisecond) * 1024
		}
	}
	at := func(t *Time) {
		if *t != 0 {
			*t += d
		}
	}
	for _, t := range w.tokens() {
		token(t)
	}
	l := w.Lock
	for i := range l.Holders {
		if h := &l.Holders[i]; h.Ends != 0 {
			h.Ends = max(h.Ends+d, start-Second)
		}
	}
	at(&l.Fence.Rests)
	at(&l.Ends)
	at(&l.Fence.Ends)
	for _, q := range []*Queue{&l.Queue, &l.Readers} {
		at(&q.Ends)
		for i := range q.Entries {
			if e := &q.Entries[i]; e.Score < 0 {
				e.Score -= d
			} else {
				e.Score += d
			}
		}
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		at(&c.Score)
		at(&c.Request.Score)
		if c.Request.Executed && !c.Request.Reply.Granted() && c.Request.Reply.X != 0 {
			c.Request.Reply.X += int64(d)
		}
	}
	for i := range w.Strays {
		at(&w.Strays[i].Score)
	}
}

// tokens returns where there are tokens.
func (w *World) tokens() []*int64 {
	all := append(make([]*int64, 0, 16), &w.Lock.Fence.Token, &w.Best, &w.Issued)
	for i := range w.Calls {
		c := &w.Calls[i]
		all = append(all, &c.Token)
		if q := &c.Request; q.Executed && q.Reply.Granted() && q.Verb <= Poll {
			all = append(all, &q.Reply.N)
		}
	}
	for i := range w.Sessions {
		for j := range w.Sessions[i].Inbox {
			all = append(all, &w.Sessions[i].Inbox[j].Token)
		}
	}
	return slices.DeleteFunc(all, func(t *int64) bool { return *t < 1024 }) // a reader has none
}

// rankTokens makes the blocks of tokens that are behind the clock as close to it as their order
// allows.
func (w *World) rankTokens() {
	block := int64(start/Millisecond) * 1024
	tokens := w.tokens()
	var buf [16]int64
	old := buf[:0]
	for _, t := range tokens {
		if *t != 0 && *t < block {
			old = append(old, *t/1024)
		}
	}
	slices.Sort(old)
	old = slices.Compact(old)
	for _, t := range tokens {
		if *t != 0 && *t < block {
			i, _ := slices.BinarySearch(old, *t/1024)
			*t = block - int64(len(old)-i)*1024 + *t%1024
		}
	}
}

// rankScores makes scores as small as their order allows.
func (w *World) rankScores() {
	var scores []*Time
	var replies []*int64
	for _, q := range []*Queue{&w.Lock.Queue, &w.Lock.Readers} {
		for i := range q.Entries {
			if e := &q.Entries[i]; e.ID != Redisson {
				scores = append(scores, &e.Score)
			}
		}
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		if c.Score != 0 {
			scores = append(scores, &c.Score)
		}
		if c.Request.Score != 0 {
			scores = append(scores, &c.Request.Score)
		}
		if q := &c.Request; q.Executed && !q.Reply.Granted() && q.Reply.X != 0 {
			replies = append(replies, &q.Reply.X)
		}
	}
	for i := range w.Strays {
		if w.Strays[i].Score != 0 {
			scores = append(scores, &w.Strays[i].Score)
		}
	}
	var buf [32]Time
	all := buf[:0]
	for _, s := range scores {
		all = append(all, *s)
	}
	for _, x := range replies {
		all = append(all, Time(*x))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, s := range scores {
		i, _ := slices.BinarySearch(all, *s)
		*s = start - 100 + Time(i)
	}
	for _, x := range replies {
		i, _ := slices.BinarySearch(all, Time(*x))
		*x = int64(start - 100 + Time(i))
	}
}

// key returns what distinguishes a state from others.
func (w *World) key(b []byte) []byte {
	num := func(n int64) { b = binary.AppendVarint(b, n) }
	rel := func(t Time) {
		if t == 0 {
			num(1 << 40)
		} else {
			num(int64(t - start))
		}
	}
	bit := func(bits ...bool) {
		n := int64(0)
		for _, x := range bits {
			n *= 2
			if x {
				n++
			}
		}
		num(n)
	}
	text := func(id ID) { b = append(append(b, id...), 0) }
	tok := func(t int64) { num(t - int64(start/Millisecond)*1024) }
	queue := func(q *Queue) {
		num(int64(len(q.Entries)))
		rel(q.Ends)
		for _, e := range q.Entries {
			text(e.ID)
			if e.Score < 0 {
				num(int64(e.Score + start))
			} else {
				rel(e.Score)
			}
		}
	}
	l := w.Lock
	num(int64(len(l.Holders)))
	for _, h := range l.Holders {
		text(h.ID)
		bit(h.Rests)
		rel(h.Ends)
		num(int64(h.Slot))
	}
	text(ID(l.Mode))
	num(int64(l.Limit))
	rel(l.Fence.Rests)
	rel(l.Ends)
	tok(l.Fence.Token)
	text(l.Fence.Of)
	rel(l.Fence.Ends)
	queue(&l.Queue)
	queue(&l.Readers)
	for i := range w.Calls {
		c := &w.Calls[i]
		num(int64(c.Stage))
		if c.Stage == Over {
			continue
		}
		bit(c.Polls, c.Grant, c.Fresh, c.Again, c.Wanted, c.Doubt, c.Block)
		num(int64(c.Left<<8 | c.N<<4 | c.Begun))
		rel(c.Score)
		rel(c.Polled)
		rel(c.Deadline)
		tok(c.Token)
		num(int64(c.Waits))
		num(int64(c.Slot))
		q := &c.Request
		if num(int64(q.Verb)); q.Verb != None {
			rel(q.Sent)
			rel(q.Score)
			bit(q.Executed)
			if q.Executed {
				num(q.Reply.N - int64(start/Millisecond)*1024)
				num(q.Reply.X)
				num(q.Reply.Y)
			}
		}
	}
	for i := range w.Sessions {
		s := &w.Sessions[i]
		bit(s.Frozen, s.Dead, s.Subscribed)
		num(int64(len(s.Inbox)))
		for _, m := range s.Inbox {
			b = append(b, m.Verb[0])
			text(m.ID)
			tok(m.Token)
			num(int64(m.Term))
			num(int64(m.Slot))
			bit(m.More)
		}
		num(int64(len(s.Cleanups)))
		for _, t := range s.Cleanups {
			text(t.ID)
			rel(t.Doubt)
			bit(t.Tried)
		}
	}
	num(int64(len(w.Strays)))
	for _, s := range w.Strays {
		num(int64(s.Verb))
		text(s.ID)
		rel(s.Score)
		rel(s.Until)
	}
	f := w.Faults
	for _, n := range []int{
		f.Freezes, f.Crashes, f.Waiters, f.Silent, f.Cuts, f.LostMessages, f.LostReplies, f.Twice,
		f.Cancels, f.Forces, f.Ahead, f.Back, f.Wipes, f.Redisson, f.Listens,
	} {
		b = append(b, byte(n))
	}
	bit(w.Theirs.Listens, w.Theirs.Holds, w.Lossy, w.cut)
	text(w.Last)
	tok(w.Best)
	tok(w.Issued)
	return b
}

// A Result is what an exploration has found.
type Result struct {
	States   int
	Complete bool // every state was visited
	Waits    int  // the longest that a call has waited while nobody validly held the lock
	Took     time.Duration
	Broken   string   // the property that is broken; empty: none
	Steps    []string // that lead there, as few as possible
}

// A state was reached from another by the step of that number.
type reached struct{ from, step int32 }

// A State is what can be explored.
type State[S any] interface {
	clone() S
	telling() S              // a copy, of which steps say what they were
	normalize()              // makes states alike that only differ in when they are
	key(b []byte) []byte     // what distinguishes a state from others
	Next(visit func(next S)) // every state that may follow
	wrong() string           // which property is broken
	step() string            // what the last step was
	waited() int             // the longest that a call has waited
}

func (w *World) wrong() string { return w.Why }
func (w *World) step() string  { return w.why }

func (w *World) waited() (longest int) {
	for _, c := range w.Calls {
		longest = max(longest, c.Waits)
	}
	return longest
}

func (w *World) telling() *World {
	n, rules := w.clone(), *w.Rules
	rules.told = true
	n.Rules = &rules
	return n
}

// Explore visits every state of a world, breadth first, at most so many, and stops at the first
// that breaks a property.
func Explore[S State[S]](first S, most int) (res Result) {
	begin := time.Now()
	defer func() { res.Took = time.Since(begin) }()
	seen := make(map[string]struct{})
	var paths []reached
	var front []S
	var buf []byte
	add := func(w S, from, step int32) bool {
		w.normalize()
		buf = w.key(buf[:0])
		if _, was := seen[string(buf)]; was {
			return false
		}
		seen[string(buf)] = struct{}{}
		paths = append(paths, reached{from, step})
		front = append(front, w)
		return true
	}
	add(first.clone(), -1, 0)
	for at := int32(0); len(front) > 0; at++ {
		w := front[0]
		front[0], front = *new(S), front[1:]
		step := int32(0)
		w.Next(func(n S) {
			if res.Broken == "" && add(n, at, step) {
				res.Waits = max(res.Waits, n.waited())
				if res.Broken = n.wrong(); res.Broken != "" {
					res.Steps = replay(first, paths, int32(len(paths)-1))
				}
			}
			step++
		})
		if res.States = len(seen); res.Broken != "" || res.States > most {
			return res
		}
	}
	res.Complete = true
	return res
}

// After returns the world after some steps.
func (w *World) After(steps ...string) *World {
	rules := w.Rules
	w = w.telling()
	for _, step := range steps {
		var next *World
		w.Next(func(n *World) {
			if strings.HasPrefix(n.why, step) {
				next = n
			}
		})
		if next == nil {
			panic("there is no such step: " + step)
		}
		w = next
	}
	w.Rules = rules
	return w
}

// replay tells the steps that have led to a state.
func replay[S State[S]](first S, paths []reached, to int32) (told []string) {
	var steps []int32
	for at := to; paths[at].from >= 0; at = paths[at].from {
		steps = append(steps, paths[at].step)
	}
	w := first.telling()
	w.normalize()
	for _, step := range slices.Backward(steps) {
		n := int32(0)
		var next S
		w.Next(func(o S) {
			if n == step {
				next = o
			}
			n++
		})
		told = append(told, next.step())
		next.normalize()
		w = next
	}
	return told
}
