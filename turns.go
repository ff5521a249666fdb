package relock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Fairness among processes.
//
// A release is published to every process that waits, and all of them could ask Redis
// at once. That race is not even: Redis tells its subscribers in the order in which
// they subscribed, the machine of one process is busier than another's, and the
// process that has released needs no message at all. So the processes take turns. A
// turn is one acquisition in Redis, with all that the process passes on by itself. At
// the end of its turn a process notes how many others were told of it, and from then
// on counts the releases it hears of:
//
//   - It is due when as many turns have ended since as there were others. Then, and
//     when it comes anew, it asks at once.
//   - Before that it lets one step pass, after each release, for every turn that is to
//     come before its own. So if the process that is due has gone or hangs, the next
//     in line takes its place a step later.
//   - Those that it let pass and that did not come, turnsVain times in a row, do not
//     want the lock any more and are only still subscribed. For a while it does not
//     count them: for turnFree, and twice as long each time that it finds the same
//     after that.
//
// So it is the turn of the process that has waited longest. One that the others
// overtake because it is slow stays ahead of all that have had a turn since. Where no
// process has left, the lock is not free for longer than it takes to hear of it.
const (
	stepMin     = 500 * time.Microsecond
	stepMax     = 10 * time.Millisecond
	turnsMost   = 32
	turnsVain   = 3
	turnFree    = 10 * time.Millisecond
	turnFreeMax = 100 * time.Millisecond
	turnForget  = time.Second // a turn is remembered that long after its end
)

// turns remembers the turns of this process, by the channel of the lock.
type turns struct {
	some atomic.Int64 // how many are remembered

	mu sync.Mutex // protects the following
	of map[string]*turn
}

// turn is the last turn of this process at a lock that others wait for.
type turn struct {
	since  int64 // from the acquisition
	end    int64 // to the release
	others int   // processes that were told of the end, as far as they count
	heard  int64 // releases heard of so far, its own among them if that is heard of
	until  int64 // when it let those pass that were still to come; 0 if it has not

	vain   int           // turns in a row before which it let some pass that did not come
	absent int           // processes that were told and are not counted
	free   int64         // until then
	period time.Duration // how long that is
}

// ended records a turn.
func (t *turns) ended(channel string, u turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.some.Store(int64(len(t.of))) }()
	if u.others <= 0 {
		delete(t.of, channel)
		return
	}
	if old := t.of[channel]; old != nil {
		u.mindAbsent(old)
	}
	u.others = min(max(0, u.others-u.absent), turnsMost)
	if t.of == nil {
		t.of = make(map[string]*turn)
	}
	next := new(turn)
	*next = u // u itself stays off the heap
	t.of[channel] = next
	for c, o := range t.of { // forget a few old ones
		if u.end-o.end <= int64(turnForget) {
			break
		}
		delete(t.of, c)
	}
}

// mindAbsent finds out who is not to be counted at the end of u, the turn after old.
func (u *turn) mindAbsent(old *turn) {
	missing := old.others - int(max(0, u.heard-1-old.heard))
	switch {
	case missing > 0 && old.until > 0 && u.since >= old.until:
		u.vain = old.vain + 1
		if u.vain < turnsVain {
			return
		}
		u.absent = old.absent + missing
		u.period = min(max(turnFree, 2*old.period), turnFreeMax)
		u.free = u.end + int64(u.period)
	case u.end < old.free:
		u.absent, u.free, u.vain, u.period = old.absent, old.free, old.vain, old.period
	case old.absent > 0: // let them pass once more
		u.vain, u.period = old.vain, old.period
	}
}

// due returns when this process may ask for a lock, at the earliest. h is what it has
// heard of the channel.
func (t *turns) due(channel string, now int64, h heard, step time.Duration) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.of[channel]
	if u == nil || now-u.end > int64(turnForget) || h.n < u.heard-1 {
		return 0
	}
	before := int64(u.others) - max(0, h.n-u.heard)
	if before <= 0 {
		return 0
	}
	u.until = max(u.end, h.last) + before*int64(step)
	return u.until
}

// step is the time in which a process that hears of a release will have taken the
// lock.
func (s *Session) step() time.Duration {
	return min(max(time.Duration(2*s.rtt.Load()), stepMin), stepMax)
}

// sawRTT follows the round trips of acquires, downwards faster than upwards: a slow
// one has mostly waited for a processor.
func (s *Session) sawRTT(d int64) {
	switch old := s.rtt.Load(); {
	case old == 0:
		s.rtt.Store(d)
	case d < old:
		s.rtt.Store(old - (old-d)/2)
	default:
		s.rtt.Store(old + (d-old)/16)
	}
}
