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
		r.reads(ofMany(r.reader(i), i), ReadJoin)
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

// seen has a reader hold the lock, a writer wait, and so many sessions look at it a moment ago.
func seen(r *rig, sessions int) {
	r.reads(r.reader(1), ReadJoin)
	r.queues(r.writer(2))
	r.must("EVAL", `local t = redis.call('time')
for n = 1, tonumber(ARGV[1]) do
  redis.call('zadd', KEYS[1], t[1] * 1000, string.format('%08x-0000-8000-8000-000000000000', n))
end
redis.call('pexpire', KEYS[1], 5000)`, "1", rwSeen, fmt.Sprint(sessions))
}

// What a call costs the server does not depend on how many others there are. Each walked over all readers once, twice,
// with three commands for each; a thousand renewals did that each; and all sessions that wait were read.
//
// The commands are what counts, and no other program has a part in them. A token that follows another faster than the
// clock takes one more, and few rounds meet the end of a millisecond. The time shows single commands that read all of
// something.
func TestCallsCostTheSameHoweverManyThereAre(t *testing.T) {
	for what, c := range map[string]struct {
		others []int
		before func(r *rig, others int)
		call   func(r *rig, round int)
		most   int64 // commands
		rounds int
	}{
		"a lone reader":           {[]int{0}, crowd, pair(Read), 18, 30},
		"a lone writer":           {[]int{0}, crowd, pair(Write), 14, 30},
		"a reader beside readers": {[]int{1, 100, 3000}, crowd, pair(Read), 30, 100},
		"a writer who queues": {[]int{1, 100, 3000}, crowd, func(r *rig, _ int) {
			r.must("DEL", rwQueue) // a queue that is there is prolonged once a second
			r.queues(r.writer(1))
		}, 25, 30},
		"a writer who looks": {[]int{1, 100, 3000}, func(r *rig, n int) {
			crowd(r, n)
			r.queues(r.writer(1))
		}, func(r *rig, _ int) { r.looksFor(0, r.writer(1)) }, 30, 30},
		"renewals": {[]int{1000}, crowd, renewsCrowd(1000), 20 * 1000, 5},
		"renewals beside Redisson": {[]int{300}, func(r *rig, n int) {
			crowd(r, n)
			r.redissonReads(id("j:7"), 1, time.Minute)
		}, renewsCrowd(300), 20*300 + 3*4*301, 1},
		"a hand-over": {[]int{32, 128, 1000}, func(r *rig, n int) {
			for i := range n {
				asks(Write, i)(r)
			}
		}, func(r *rig, n int) { r.end(r.writer(n)) }, 22, 30},
		"a writer who lets readers in": {[]int{1000}, func(r *rig, n int) {
			r.take(r.writer(0))
			for i := range n {
				r.queues(ofMany(r.reader(i), i))
			}
			theirsWas(r)
			r.PubSub = ClusterWide // they count as being there
		}, func(r *rig, _ int) { r.end(r.writer(0)) }, 30 + 2*100, 1},
		"a look beside those who look": {[]int{10, 10_000}, seen, func(r *rig, _ int) { r.looksFor(0, r.writer(2)) }, 30, 30},
		"a reader beside those who look": {[]int{10, 10_000}, seen, func(r *rig, n int) {
			tries(Read, 100+n)(r)
		}, 30, 30},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var commands, times []int64 // of some rounds the median, and the shortest
			for _, others := range c.others {
				r := newRig(t, "--save", "", "--appendonly", "no") // it does nothing by itself
				r.present()
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
