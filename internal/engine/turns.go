package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/pubsub"
)

// Fairness among processes.
//
// A release is published to every process that waits, and all of them could ask Redis at once.
// That race is not even: Redis notifies subscribers in the order in which they subscribed, some
// machines are busier than others, and the process that released needs no message at all. So
// processes take turns. A turn is one acquisition in Redis, with all the holds that the process
// passes on by itself. At the end of its turn a process notes how many other processes the
// release was published to, and counts the releases it hears from then on:
//
//   - It is due when as many turns have ended as there were others. When it is due, or has had
//     no turn lately, it asks at once.
//   - Before that it yields: after each release it waits one step for every turn that should
//     come before its own. If the process that is due is gone or hangs, the next in line takes
//     its place one step later.
//   - Processes that do not take a turn offered to them turnsMissed times in a row are ghosts:
//     still subscribed, but not interested in the lock. They are ignored for ghostsIgnored, and
//     twice as long whenever the same shows again.
//
// So the process that has waited longest is due. A slow process that others overtake stays
// ahead of all that have had a turn since. Where no process has left, the lock is free no
// longer than it takes to hear of the release.
const (
	StepMin          = 500 * time.Microsecond // a step is at least that long
	stepMax          = 10 * time.Millisecond
	turnsMost        = pubsub.MaxGap
	turnsMissed      = 3
	ghostsIgnored    = 10 * time.Millisecond
	ghostsIgnoredMax = 100 * time.Millisecond
	turnForget       = time.Second // after its end
)

// turns remembers the last turn of this process at each lock that others wait for.
type turns struct {
	some atomic.Int64 // len(of)

	mu sync.Mutex       // protects the following
	of map[string]*turn // by the channel of the lock
}

// turn is the last turn of this process at a lock.
type turn struct {
	since  int64 // when the lease was acquired
	end    int64 // when it was released
	others int   // processes that heard of the release, without ghosts
	heard  int64 // releases heard until then, its own included if that is heard
	until  int64 // until when it yielded to the turns before its own; 0: not yet

	misses      int           // turns in a row that were offered and not taken
	ghosts      int           // processes that are ignored
	ignoreUntil int64         // until then
	period      time.Duration // the last period of ignoring them
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
		u.countGhosts(old)
	}
	u.others = min(max(0, u.others-u.ghosts), turnsMost)
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

// countGhosts determines the ghosts at the end of u, the turn after old.
func (u *turn) countGhosts(old *turn) {
	missing := old.others - int(max(0, u.heard-1-old.heard))
	switch {
	case missing > 0 && old.until > 0 && u.since >= old.until:
		u.misses = old.misses + 1
		if u.misses < turnsMissed {
			return
		}
		u.ghosts = old.ghosts + missing
		u.period = min(max(ghostsIgnored, 2*old.period), ghostsIgnoredMax)
		u.ignoreUntil = u.end + int64(u.period)
	case u.end < old.ignoreUntil:
		u.ghosts, u.ignoreUntil, u.misses, u.period = old.ghosts, old.ignoreUntil, old.misses, old.period
	case old.ghosts > 0: // yield to them once more
		u.misses, u.period = old.misses, old.period
	}
}

// due returns when this process may ask for a lock at the earliest, after it heard h of its
// channel.
func (t *turns) due(channel string, now int64, h pubsub.Heard, step time.Duration) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.of[channel]
	if u == nil || now-u.end > int64(turnForget) || h.N < u.heard-1 {
		return 0
	}
	before := int64(u.others) - max(0, h.N-u.heard)
	if before <= 0 {
		return 0
	}
	u.until = max(u.end, h.Last) + before*int64(step)
	return u.until
}

// YieldFor returns how long a call on b must wait before it may ask Redis, because it is the turn of
// other processes; 0 if it need not.
func (b *base) YieldFor() time.Duration {
	e := b.e
	if e.turns.some.Load() == 0 {
		return 0
	}
	now := e.Clock.Now()
	return time.Duration(max(0, e.turns.due(b.keys.Channel, now, e.broker.Heard(b.keys.Channel), e.Step())-now))
}

// endTurn records a turn whose release told so many subscribers. It heard h before the release.
func (e *Engine) endTurn(l *lease.Lease, told int64, h pubsub.Heard) {
	if h.Live {
		told-- // this engine itself
		h.N++
	}
	if told <= 0 && e.turns.some.Load() == 0 {
		return // nobody else waits, as usual
	}
	e.turns.ended(l.Keys.Channel, turn{since: l.Since, end: e.Clock.Now(), others: int(told), heard: h.N})
}

// Step is how long a process that hears of a release needs to acquire the lock.
func (e *Engine) Step() time.Duration {
	return min(max(time.Duration(2*e.rtt.Load()), StepMin), stepMax)
}

// observeRTT smooths the round trips of acquisitions. It follows them down faster than up: a
// slow one has mostly waited for a processor.
func (e *Engine) observeRTT(d int64) {
	switch old := e.rtt.Load(); {
	case old == 0:
		e.rtt.Store(d)
	case d < old:
		e.rtt.Store(old - (old-d)/2)
	default:
		e.rtt.Store(old + (d-old)/16)
	}
}
