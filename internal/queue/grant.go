package queue

import (
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// message is what a contender is told.
type message struct {
	at    int64         // when
	token int64         // of the grant; 0: look at the lock
	claim time.Duration // the grant's length
}

// early keeps the messages for hold ids of this session that nobody has added, for a while: one may
// overtake the reply to the request that queues the id. Most are for ids that were removed. They
// are few: if one is missing, the next look finds the grant.
type early map[string]message

const (
	earlyMost = 128
	earlyKept = int64(wire.ClaimMost) // after that a grant has expired
)

// put keeps a message. id may be part of a long one, which is not kept.
func (e early) put(id string, m message) {
	e.forget(m.at)
	if len(e) < earlyMost {
		e[strings.Clone(id)] = m
	}
}

// forget drops what is old, and returns whether anything is left.
func (e early) forget(now int64) bool {
	for id, m := range e {
		if now-m.at > earlyKept {
			delete(e, id)
		}
	}
	return len(e) > 0
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

// Heard handles what the session is told. It runs on the connection's reader, and does not block.
//
// "granted <hold id> <token> <claim> <key>" grants the lock with that key. The claim may be longer
// than the lease, to which a probe under way, or a renewal, may have shortened it. "look <hold id>"
// grants nothing: the lock is free, but it is Redisson's turn for the moment.
//
// Anybody who may publish on the session's channel can send such messages. But nobody else knows a
// hold id that this session waits under, unless he may read the queue of that lock.
func (q *Queue) Heard(text string) {
	verb, rest, _ := strings.Cut(text, " ")
	id, rest, _ := strings.Cut(rest, " ")
	if !wire.IsHoldOf(q.Session, id) {
		return
	}
	m := message{at: q.Clock.Now()}
	key := ""
	switch verb {
	case "look":
	case "granted":
		var ok bool
		if m, key, ok = granted(m, rest); !ok {
			return
		}
	default:
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch w := q.waiters[id]; {
	case w == nil:
		q.early.put(id, m)
	case m.token == 0 || key == w.ref.Keys.Name:
		q.heardLocked(w, m)
	}
}

// granted adds what follows the hold id of a grant to a message.
func granted(m message, rest string) (_ message, key string, ok bool) {
	number, rest, _ := strings.Cut(rest, " ")
	length, key, _ := strings.Cut(rest, " ")
	token, bad := strconv.ParseInt(number, 10, 64)
	claim, err := strconv.ParseInt(length, 10, 64)
	m.token, m.claim = token, time.Duration(claim)*time.Millisecond
	return m, key, bad == nil && err == nil && token > 0 && m.claim > 0 && m.claim <= wire.ClaimMost
}

func (q *Queue) heardLocked(w *Waiter, m message) {
	switch {
	case w.grant.Token > 0:
	case m.token > 0:
		q.grantedLocked(w, Grant{Token: m.token, Term: min(m.claim, w.ref.Length), Claim: true}, w.probed)
	default:
		q.lookLocked(w, m.at+int64(yieldLook))
	}
}

// A Grant gives a lock to a contender for a term.
type Grant struct {
	Token int64 // 0: not granted yet
	Term  time.Duration
	Until int64 // certain until then
	Claim bool  // Term is a claim
}

// grantedLocked records a grant. It began after the request that was sent at sent.
func (q *Queue) grantedLocked(w *Waiter, g Grant, sent int64) {
	g.Until = lease.CertainUntil(g.Term, sent)
	w.grant = g
	q.unscheduleLocked(w)
	q.pollsLocked(w, false)
	timing.Signal(w.C)
}

// Answer returns w's grant, and whether its place is lost.
func (q *Queue) Answer(w *Waiter) (g Grant, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.grant, w.lost
}
