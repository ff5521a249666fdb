package queue

import (
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// A Grant gives a lock to a waiter for a term.
type Grant struct {
	wire.Reply                // not granted: not yet
	Slot        int           // of a permit; -1 if it is not known
	Term        time.Duration // of the hold
	Until       int64         // valid until then
	Unconfirmed bool          // Term is a grant timeout, or the rest of one
	Trip        int64         // how long the poll took that found it; 0: a message has told it
}

// Heard handles what the session is told. It runs on the connection's reader, and does not block.
//
// "granted <hold id> <token> <grant timeout> <key>" grants the lock with that key; a grant timeout
// with a plus sign says that others wait behind the winner. The grant timeout may be longer than
// the lease, to which a poll under way, or a renewal, may have shortened it. A permit's token is
// followed by a slash and its slot. "poll <hint> …" grants nothing: the lock may be free, or an
// entry gone, of a hold id with that hint ([wire.Hint]). Heard reports false if nobody waits under
// the hold id of a grant.
//
// Anybody who may publish on the session's channel can send such messages, and hear them. But
// nobody else knows a hold id that this session waits under, unless he may read the queue of that
// lock.
func (q *Queue) Heard(message string) bool {
	verb, rest, _ := strings.Cut(message, " ")
	id, more, _ := strings.Cut(rest, " ")
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.waiters[id]
	known := w != nil
	if verb == "poll" {
		known = q.calledUpLocked(rest)
	}
	if !known {
		q.gap = q.Clock.Now() // it may have overtaken the reply to the request that queues the id
	}
	if verb == "granted" {
		if w == nil || !q.waitsLocked(w) {
			return w != nil
		}
		g, key := Granted(more, w.ref.Kind)
		if g.Granted && key == w.lockName() && (g.Slot >= 0) == w.ref.Kind.Slots() {
			g.Term = min(g.Term, w.ref.Length)
			q.grantedLocked(w, g, w.polled)
		}
	}
	return true
}

// hintsMost is the length of a message's hints: scripts send a hundred.
const hintsMost = 1000

// calledUpLocked polls the waiters with these hints, and reports whether there are any.
func (q *Queue) calledUpLocked(hints string) (some bool) {
	named := map[string]bool{}
	for hint := range strings.FieldsSeq(hints[:min(len(hints), hintsMost)]) {
		named[hint] = true
	}
	for id, w := range q.waiters {
		if named[wire.Hint(id)] {
			q.advanceLocked(w, q.Clock.Now()+int64(soonest))
			some = true
		}
	}
	return some
}

// soonest is after how long a waiter is polled at the earliest that is told to.
const soonest = time.Millisecond

// Granted returns the grant of a hold of that kind that follows the hold id in a message, if it is
// one, and its key.
func Granted(text string, k wire.Kind) (g Grant, key string) {
	number, rest, _ := strings.Cut(text, " ")
	length, key, _ := strings.Cut(rest, " ")
	number, place, permit := strings.Cut(number, "/")
	slot := -1
	if n, err := strconv.ParseUint(place, 10, 31); permit && err == nil {
		slot = int(n)
	}
	length, wanted := strings.CutPrefix(length, "+")
	token, bad := strconv.ParseInt(number, 10, 64)
	ms, err := strconv.ParseInt(length, 10, 64)
	if bad != nil || err != nil || ms <= 0 || ms > wire.GrantMost.Milliseconds() {
		return Grant{}, ""
	}
	g = Grant{Reply: k.Granted(token), Slot: slot, Unconfirmed: true}
	g.Term = time.Duration(ms) * time.Millisecond
	g.Wanted = g.Wanted || wanted
	return g, key
}

// grantedLocked records a grant. It began after the request that was sent at sent.
func (q *Queue) grantedLocked(w *Waiter, g Grant, sent int64) {
	g.Until = lease.CertainUntil(g.Term, sent)
	w.grant = g
	q.endLocked(w)
	timing.Signal(w.C)
}

// Answer returns w's grant, and whether its entry is gone.
func (q *Queue) Answer(w *Waiter) (g Grant, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.grant, w.lost
}
