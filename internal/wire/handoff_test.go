package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/lockerr"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/transport"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A hold goes from id to id, each time with a larger token and its own lease; who had it before has nothing any more.
func TestHandoffMovesTheHold(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		holder, ticket, adopter := r.lease(Plain, 1), r.lease(Plain, 2), r.lease(Plain, 3)
		ticket.Length = time.Hour
		token := r.take(holder)
		r.queues(r.lease(Plain, 4))
		next := r.listen(sessionChannel, plainChannel)
		for _, move := range [][2]*Ref{{holder, ticket}, {ticket, adopter}} {
			from, to := move[0], move[1]
			got, _, err := r.Handoff(ctx0, from.ID, to, false, "")
			require.NoError(t, err)
			require.Greater(t, got, token)
			token = got
			r.held(to)
			r.mustNear("the lock", r.pttl("a"), to.Length)
			require.Greater(t, r.pttl(fenceKey), r.pttl("a")+500*time.Millisecond, "the token is remembered longer than the hold")
			require.Equal(t, polled(r.lease(Plain, 4)), next(), "the first waiter hears of the new lease")
			require.Equal(t, plainChannel+" 0", next(), "and Redisson")
			r.gone(from)
			require.True(t, r.Renew(ctx0, []*Ref{from})[0].Gone)
			got, now, err := r.Handoff(ctx0, from.ID, r.lease(Plain, 5), false, "")
			require.NoError(t, err)
			require.Zero(t, got)
			require.InDelta(t, time.Now().UnixMilli(), now.Milliseconds(), 60e3)
			r.refused(r.lease(Plain, 4), 0, to.Length)
			r.held(to)
		}
		r.end(r.lease(Plain, 4), adopter)
		_, _, err := r.Handoff(ctx0, adopter.ID, ticket, false, "")
		require.NoError(t, err)
		r.must("SET", "a", "no lock")
		_, _, err = r.Handoff(ctx0, adopter.ID, ticket, false, "")
		require.ErrorIs(t, err, lockerr.ErrNotLock)
	})
}

// A ticket ends on the server's clock, wherever the last token is.
func TestHandoffToATicketTellsTheTime(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		r.take(r.lease(Plain, 1))
		r.must("SET", fenceKey, fmt.Sprint(int64(1)<<52))
		for range 2 { // the second is sent again
			at, _, err := r.Handoff(ctx0, r.lease(Plain, 1).ID, r.lease(Plain, 2), true, "")
			require.NoError(t, err)
			require.InDelta(t, time.Now().UnixMilli(), at, 60e3)
		}
	})
}

// The lease of who has it already is started again, and not cut short.
func TestHandoffSentAgainRenews(t *testing.T) {
	onRigs(t, func(t *testing.T, r *rig) {
		holder, to := r.lease(Plain, 1), r.lease(Plain, 2)
		r.take(holder)
		require.Contains(t, handsOff(1, 2)(r), "granted")
		for set, want := range map[string]time.Duration{"5000": to.Length, "3000000": 3000 * time.Second} {
			r.must("PEXPIRE", "a", set)
			require.Contains(t, handsOff(1, 2)(r), "granted")
			r.mustNear("the lock", r.pttl("a"), want)
		}
	})
}

func TestHandoffWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary, replicas := redistest.StartReplicas(t, 1)
	r := rigOn(t, primary.Client(t))
	r.take(r.lease(Plain, 1))
	r.Replicas, r.AckWait = 1, 10*time.Second
	require.Contains(t, handsOff(1, 2)(r), "granted")
	rigOn(t, replicas[0].Client(t)).held(r.lease(Plain, 2))
	r.AckWait = time.Millisecond
	require.NoError(t, replicas[0].Freeze())
	_, _, err := r.Handoff(ctx0, r.lease(Plain, 2).ID, r.lease(Plain, 3), false, "")
	require.ErrorAs(t, err, new(*transport.ReplicaError))
	require.NoError(t, replicas[0].Thaw())
}

// What a ticket says is read again, whatever the lock is called, and no other text is a ticket.
func TestTicketIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	rapid.Check(t, func(rt *rapid.T) {
		prefix := string(rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(rt, "prefix"))
		name := string(rapid.SliceOfN(rapid.Byte(), 1, 1024).Draw(rt, "name"))
		ticket := NewTicket(prefix, name, session("s"))
		ticket.Until = rapid.Int64Range(1<<40, 1<<43).Draw(rt, "until")
		text := ticket.Text()
		require.Regexp(rt, "^[A-Za-z0-9_-]+$", text)
		require.False(rt, seen[ticket.HoldID()])
		seen[ticket.HoldID()] = true
		again, err := ReadTicket(text)
		require.NoError(rt, err)
		require.Equal(rt, ticket, again)
		require.True(rt, IsHoldOf(session("s"), again.HoldID()))
		at := rapid.IntRange(0, len(again.secret)-1).Draw(rt, "byte")
		again.secret[at]++
		require.NotEqual(rt, ticket.HoldID(), again.HoldID(), "all of the secret counts")
		i := rapid.IntRange(0, len(text)-2).Draw(rt, "at")
		for _, bad := range []string{text[:i], text[i+1:], text[:i] + "_" + text[i+1:], text + text} {
			if bad != text {
				_, err := ReadTicket(bad)
				require.ErrorIs(rt, err, ErrTicket, "%q", bad)
			}
		}
	})
}
