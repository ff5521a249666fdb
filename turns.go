package relock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Fairness among processes.
//
// A release is published to every process that waits, and all of them ask Redis at
// once. Left to itself that race is not even: Redis tells its subscribers in the
// order in which they subscribed, and the process that has just released needs no
// message at all. So each process remembers, for a name at which others wait, when
// it last had its turn, and gives way:
//
//   - A process whose tenure is spent lets the others go first: it waits for as
//     many steps as there are others before it asks again.
//   - After that, every release on which another one was faster brings it a step
//     forward, until it asks without delay.
//
// A step is about a round trip. So the processes take turns, the one that has waited
// longest first; and a process that comes anew, or has nobody to give way to, never
// waits. The lock itself is free in the meantime for at most a few round trips in
// each tenure.
const (
	stepMin    = 50 * time.Microsecond
	stepMax    = 2 * time.Millisecond
	stepsMost  = 32
	turnForget = time.Second // a turn is remembered that long after its end
)

// turns remembers the turns of this process.
type turns struct {
	some atomic.Int64 // how many are remembered

	mu sync.Mutex // protects the following
	of map[string]*turn
}

// turn is the last turn of this process at a name that others wait for.
type turn struct {
	start  int64 // of the first acquisition of the turn
	end    int64 // of the last one
	others int   // processes that waited then
	misses int   // releases since on which another was faster
	over   bool  // its tenure was spent, and the others had their chance
}

// released records the end of an acquisition. told is how many subscribers heard
// of it, of which own are this process's.
func (t *turns) released(name string, since, now int64, others int) {
	if others <= 0 && t.some.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.of[name]
	if others <= 0 {
		delete(t.of, name)
		t.some.Store(int64(len(t.of)))
		return
	}
	next := &turn{start: since, end: now, others: min(others, stepsMost)}
	if old != nil && !old.over && since-old.end < int64(stepMax) {
		next.start = old.start // the same turn goes on: nobody else came in between
	}
	if t.of == nil {
		t.of = make(map[string]*turn)
	}
	t.of[name] = next
	for n, o := range t.of { // forget a few old ones
		if now-o.end <= int64(turnForget) {
			break
		}
		delete(t.of, n)
	}
	t.some.Store(int64(len(t.of)))
}

// giveWay returns how many steps to let pass before asking anew.
func (t *turns) giveWay(name string, now int64, tenure time.Duration) int {
	if t.some.Load() == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.recentLocked(name, now)
	if u == nil || u.over || now-u.start < int64(tenure) {
		return 0
	}
	u.over = true
	return u.others
}

// missed records that another was faster after a release.
func (t *turns) missed(name string, now int64) {
	if t.some.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.recentLocked(name, now); u != nil {
		u.misses++
		u.over = true
		u.end = now
	}
}

// behind returns how many steps to let pass after a release.
func (t *turns) behind(name string, now int64) int {
	if t.some.Load() == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.recentLocked(name, now); u != nil {
		return max(0, u.others-u.misses)
	}
	return 0
}

func (t *turns) recentLocked(name string, now int64) *turn {
	u := t.of[name]
	if u == nil || now-u.end > int64(turnForget) {
		return nil
	}
	return u
}

// step is the time that another process needs to take a lock it has heard is free.
func (s *Session) step() time.Duration {
	return min(max(time.Duration(s.rtt.Load()), stepMin), stepMax)
}

func (s *Session) sawRTT(d int64) {
	old := s.rtt.Load()
	if old == 0 {
		old = d
	}
	s.rtt.Store(old + (d-old)/8)
}
