package virtual_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/memredis"
)

// A call that was cancelled is forgotten soon, however long its ticket would have lasted.
func TestCancelledHandoffIsForgotten(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a := w.process()
		require.NoError(t, a.adopts(a.handsOff(time.Minute)).Unlock(background))
		m := a.taken()
		heal := a.partition()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := m.Handoff(ctx, 1000*time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(time.Second, heal)
		time.Sleep(2 * lease)
		var n atomic.Int64
		memredis.Of(w.redis[0], a.s[0]).Server().OnCommand(func(verb string, _ []string) (refusal string) {
			if verb == "EVALSHA" {
				n.Add(1)
			}
			return ""
		})
		time.Sleep(10 * time.Minute)
		require.Zero(t, n.Load())
	})
}

// The ticket may end before the call learns of it. Then the hold is not gone for another reason.
func TestHandoffThatIsAnsweredAfterItsTicket(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		require.NoError(t, a.adopts(a.handsOff(time.Minute)).Unlock(background))
		m := a.taken()
		waits := lockAndUnlock(b.mutex())
		time.Sleep(time.Second)
		a.loseReply()
		time.AfterFunc(time.Microsecond, a.refuse)
		time.AfterFunc(5*time.Second, a.heal)
		_, err := m.Handoff(background, time.Second)
		require.ErrorIs(t, err, relock.ErrExpired)
		require.NotErrorIs(t, err, relock.ErrGone)
		require.NoError(t, <-waits)
	})
}

// The time of a ticket is that of the server, though its clock has stepped back behind the tokens.
func TestTicketThatHasEndedAfterTheClockSteppedBack(t *testing.T) {
	onMutex(t, func(t *testing.T, w *world) {
		a, b := w.process(), w.process()
		require.NoError(t, <-lockAndUnlock(a.mutex()))
		w.redis[0].StepClock(-time.Hour)
		ticket := a.handsOff(time.Second)
		time.Sleep(2 * time.Second)
		b.useless(ticket, relock.ErrExpired)
		require.NoError(t, b.adopts(a.handsOff(time.Second)).Unlock(background))
	})
}
