package engine

import (
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/timing"
	"github.com/relock-go/relock/internal/wire"
)

// How a TryLock gets a lock that another process only keeps. It queues, unless somebody else does, and asks the holder
// by a message. The holder releases what it keeps, which grants it to who asks, or answers that the lock is in use.

// askedMost is how long a TryLock waits for that.
const askedMost = 250 * time.Millisecond

// answersMost is how many answers are under way; further ones that ask get none.
const answersMost = 64

// heardAsked follows up the message that a TryLock of another session, by the hold id by, asks for the lock of a hold.
func (e *Engine) heardAsked(id, by, key string) {
	switch l := e.leaseOf(id, key); {
	case l == nil:
	case e.drop(l):
		e.keeper.cool(l)
	case e.answers.Add(1) > answersMost:
		e.answers.Add(-1)
	default:
		e.own.Go(func() { e.answer(by) })
	}
}

// answer tells the session of a hold id that asks that the lock is in use.
func (e *Engine) answer(by string) {
	defer e.answers.Add(-1)
	session, _, _ := strings.Cut(by, ":")
	ctx, stop := timing.Within(e.ioCtx, askedMost)
	defer stop()
	to := e.proto.Client.B().Publish().Channel(wire.PrefixSession + session).Message("used " + by).Build()
	e.proto.Pipelined(ctx, rueidis.Commands{to})
}

// awaitAnswer waits until the holder says that the lock is in use, or releases what it only keeps.
func (a *attempt) awaitAnswer(l *lease.Lease) (outcome, error) {
	l.Asks = true // not one that waits, should it look
	w := a.e.queue.Add(l.Ref, l.Sent, -time.Millisecond)
	defer a.e.queue.Remove(w)
	for until := l.Sent + int64(askedMost); ; {
		left := time.Duration(until - a.e.Clock.Now())
		if left <= 0 {
			return over, nil
		}
		if done, err := a.pause(left, w.C); done || err != nil {
			return over, err
		}
		switch g, lost := a.e.queue.Answer(w); {
		case g.Token > 0:
			a.e.keeper.cool(l)
			return a.claim(l, g)
		case lost || a.e.queue.Used(w):
			return over, nil
		}
	}
}
