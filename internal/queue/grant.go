package queue

import (
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
)

// message is what a contender is told.
type message struct {
	at    int64         // when
	token int64         // of the grant; 0: look at the lock
	claim time.Duration // the grant's length
	key   string        // of the lock granted
}

// early keeps the messages for hold ids that nobody has added, for a while: one may overtake the
// reply to the request that queues the id. Most are for ids that were removed.
type early map[string]message

const (
	earlyMost = 1000
	earlyKept = int64(5 * time.Second) // at least a claim: after that a grant has expired
)

func (e early) put(id string, m message) {
	if len(e) >= earlyMost {
		for other, old := range e {
			if m.at-old.at > earlyKept {
				delete(e, other)
			}
		}
	}
	if len(e) < earlyMost { // else the next probe finds the grant
		e[id] = m
	}
}

func (e early) take(id string) (m message, ok bool) {
	if len(e) == 0 {
		return m, false
	}
	m, ok = e[id]
	delete(e, id)
	return m, ok
}

// yieldLook is after how long a contender looks at a lock that was left to Redisson.
const yieldLook = time.Millisecond

// Proves reports whether a message grants a lock: the primary has counted who is told so before.
func Proves(message string) bool { return strings.HasPrefix(message, "granted ") }

// Heard handles what the session is told, and reports whether it understood the message. It runs
// on the connection's reader, and does not block.
//
// "granted <hold id> <token> <claim> <key>" grants the lock with that key, which may be another one
// with the same queue: a and {a} share theirs. The claim may be longer than the lease, to which a
// probe under way, or a renewal, may have shortened it. "look <hold id>" grants nothing:
// the lock is free, but it is Redisson's turn for the moment.
func (q *Queue) Heard(text string) bool {
	verb, rest, _ := strings.Cut(text, " ")
	id, rest, _ := strings.Cut(rest, " ")
	m := message{at: q.Clock.Now()}
	switch verb {
	case "look":
	case "granted":
		number, rest, _ := strings.Cut(rest, " ")
		length, key, _ := strings.Cut(rest, " ")
		claim, err := strconv.ParseInt(length, 10, 64)
		var bad error
		if m.token, bad = strconv.ParseInt(number, 10, 64); bad != nil || err != nil || m.token <= 0 {
			return false
		}
		m.claim, m.key = time.Duration(claim)*time.Millisecond, key
	default:
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiters[id]; w != nil {
		q.heardLocked(w, m)
	} else {
		q.early.put(id, m)
	}
	return true
}

func (q *Queue) heardLocked(w *Waiter, m message) {
	switch {
	case w.grant.Token > 0:
	case m.token > 0 && m.key != w.ref.Keys.Name:
		w.lost = true // its place has gone for that lock, where the claim expires
		timing.Signal(w.C)
	case m.token > 0:
		q.grantedLocked(w, m.token, min(m.claim, w.ref.Length), w.probed)
	default:
		q.lookLocked(w, m.at+int64(yieldLook))
	}
}

// A Grant gives a lock to a contender for a term.
type Grant struct {
	Token int64 // 0: not granted yet
	Term  time.Duration
	Until int64 // certain until then
}

// grantedLocked records a grant. It began after the request that was sent at sent.
func (q *Queue) grantedLocked(w *Waiter, token int64, term time.Duration, sent int64) {
	w.grant = Grant{token, term, lease.CertainUntil(term, sent)}
	q.unscheduleLocked(w)
	timing.Signal(w.C)
}

// Answer returns w's grant, and whether its place is lost.
func (q *Queue) Answer(w *Waiter) (g Grant, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.grant, w.lost
}
