package queue

import (
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
)

// Granted handles the message of a grant, and reports whether it understood the message. It runs
// on the connection's reader, and does not block.
//
// "<hold id> <token> <claim>" grants the lock. The claim may be longer than the lease, to which a
// probe under way, or a renewal, may have shortened it. "<hold id> look" grants nothing: the lock
// is free, but it is another process's turn for the moment.
func (q *Queue) Granted(message string) bool {
	id, rest, _ := strings.Cut(message, " ")
	if rest == "look" {
		q.probeSoon(id)
		return true
	}
	number, length, _ := strings.Cut(rest, " ")
	token, err1 := strconv.ParseInt(number, 10, 64)
	claim, err2 := strconv.ParseInt(length, 10, 64)
	if err1 != nil || err2 != nil || token <= 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiters[id]; w != nil && w.token == 0 {
		d := min(time.Duration(claim)*time.Millisecond, w.ref.Length)
		q.answerLocked(w, token, w.probed+int64(d-lease.Margin(d)))
	}
	return true
}

// probeSoon probes the waiter with that hold id.
func (q *Queue) probeSoon(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch w := q.waiters[id]; {
	case w == nil || w.token > 0:
	case w.index >= 0:
		q.probeNowLocked(w)
	default:
		w.probeAgain = true // being probed, or about to be enqueued
	}
}

func (q *Queue) answerLocked(w *Waiter, token, until int64) {
	w.token, w.until, w.prober = token, until, false
	q.unscheduleLocked(w)
	timing.Signal(w.C)
}

// Answer returns the token of w's grant, 0 if there is none, until when the grant is certain, and
// whether w's place is lost.
func (q *Queue) Answer(w *Waiter) (token, until int64, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.token, w.until, w.lost
}
