package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// spent is what a server has done.
type spent struct {
	runs     int64         // of scripts
	scripts  time.Duration // in them
	commands int64         // all, those of scripts included, but INFO
}

// cost returns what the server has spent on f.
func (r *rig) cost(f func()) spent {
	r.t.Helper()
	before := r.spent()
	f()
	after := r.spent()
	return spent{after.runs - before.runs, after.scripts - before.scripts, after.commands - before.commands}
}

func (r *rig) spent() (s spent) {
	r.t.Helper()
	if r.mini {
		return s // it does not count
	}
	for line := range strings.Lines(r.text("INFO", "commandstats")) {
		var calls, usec int64
		name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, _ := fmt.Sscanf(stats, "calls=%d,usec=%d", &calls, &usec); n != 2 || name == "cmdstat_info" {
			continue
		}
		s.commands += calls
		if name == "cmdstat_eval" || name == "cmdstat_evalsha" {
			s.runs += calls
			s.scripts += time.Duration(usec) * time.Microsecond
		}
	}
	return s
}

// ofMany returns l as a hold of the n-th of many sessions, for longer than a test takes.
func ofMany(l *Ref, n int) *Ref {
	l.Length = 50 * time.Second
	l.ID = fmt.Sprintf("%08x-0000-8000-8000-000000000000:1", n)
	return l
}

// crowd takes the read side so many times, each for a session of its own.
func crowd(r *rig, readers int) {
	for i := range readers {
		r.take(ofMany(r.reader(i), i))
	}
}

// pair takes and releases a lock.
func pair(k Kind) func(r *rig, n int) {
	return func(r *rig, n int) {
		r.take(r.lease(k, n))
		r.end(r.lease(k, n))
	}
}

// renewsCrowd renews their leases.
func renewsCrowd(readers int) func(r *rig, _ int) {
	var ls []*Ref
	return func(r *rig, _ int) {
		for i := len(ls); i < readers; i++ {
			ls = append(ls, ofMany(r.reader(i), i))
		}
		r.renews(ls...)
	}
}

// What a call costs the server does not depend on how many others there are. Each walked over all readers once, twice,
// with three commands for each; a thousand renewals did that each; and all sessions that wait were read.
//
// The commands are what counts, and no other program has a part in them. A token that follows another faster than the
// clock takes one more, and few rounds meet the end of a millisecond. The time shows single commands that read all of
// something.
func TestCallsCostTheSameHoweverManyThereAre(t *testing.T) {
	writers := func(r *rig, n int) {
		for i := range n {
			r.asks(r.writer(i))
		}
	}
	for what, c := range map[string]struct {
		others []int
		before func(r *rig, others int)
		call   func(r *rig, round int)
		most   int64 // commands
		rounds int
	}{
		"a lone reader":           {[]int{0}, crowd, pair(Read), 18, 30},
		"a lone writer":           {[]int{0}, crowd, pair(Write), 14, 30},
		"a lone Mutex":            {[]int{0}, crowd, pair(Plain), 11, 30},
		"a lone permit":           {[]int{0}, crowd, pair(Semaphore), 20, 30},
		"a reader beside readers": {[]int{1, 100, 3000}, crowd, pair(Read), 30, 100},
		"a writer who queues": {[]int{1, 100, 3000}, crowd, func(r *rig, _ int) {
			r.must("DEL", writeQueue) // a queue that is there is prolonged once a second
			r.queues(r.writer(1))
		}, 25, 30},
		"a writer who polls": {[]int{1, 100, 3000}, func(r *rig, n int) {
			crowd(r, n)
			r.queues(r.writer(1))
		}, func(r *rig, _ int) { r.polls(r.writer(1)) }, 30, 30},
		"renewals":    {[]int{1000}, crowd, renewsCrowd(1000), 20 * 1000, 5},
		"a hand-over": {[]int{32, 128, 1000}, writers, func(r *rig, n int) { r.end(r.writer(n)) }, 22, 30},
		"a hand-over of a Mutex": {[]int{32, 128, 1000}, func(r *rig, n int) {
			for i := range n {
				r.asks(r.lease(Plain, i))
			}
		}, func(r *rig, n int) { r.end(r.lease(Plain, n)) }, 12, 30},
		"a reader who polls": {[]int{1, 100, 3000}, func(r *rig, n int) {
			r.take(r.reader(5000))
			writers(r, 1)
			r.must("PEXPIRE", writeQueue, "600000") // no writer polls meanwhile
			for i := range n {
				r.queues(ofMany(r.reader(i), i))
			}
		}, func(r *rig, n int) { r.polls(ofMany(r.reader(0), 0)) }, 30, 30},
		"a writer who lets readers in": {[]int{1000}, func(r *rig, n int) {
			r.take(r.writer(0))
			for i := range n {
				r.queues(ofMany(r.reader(i), i))
			}
			r.PubSub = ClusterWide // they count as being there
		}, func(r *rig, _ int) { r.end(r.writer(0)) }, 30 + 2*1000, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var commands, times []int64 // of some rounds the median, and the shortest
			for _, others := range c.others {
				r := newRig(t, "--save", "", "--appendonly", "no") // it does nothing by itself
				r.present("s")
				c.before(r, others)
				if c.rounds > 1 {
					c.call(r, 0) // the server learns the script
				}
				sent, took := make([]int64, c.rounds), make([]int64, c.rounds)
				for n := range c.rounds {
					cost := r.cost(func() { c.call(r, 1+n) })
					sent[n], took[n] = cost.commands, cost.scripts.Microseconds()
				}
				slices.Sort(sent)
				commands, times = append(commands, sent[c.rounds/2]), append(times, slices.Min(took))
			}
			t.Logf("beside %v: %v commands, %v µs", c.others, commands, times)
			for i, n := range c.others {
				assert.LessOrEqual(t, commands[i], min(c.most, commands[0]+1), "commands beside %d", n)
				assert.Less(t, times[i], 3*times[0]+200, "µs beside %d", n)
			}
		})
	}
}
