package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// enters has a call through a new handle ask for the lock.
func (w *world) enters(t *testing.T, o *owner, want arbiter.Verdict) (*handle, *waiter) {
	t.Helper()
	via := w.handle(write)
	if o == nil {
		o = via.OwnerOf(background)
	}
	c := w.Waiter(via, o, true, 1)
	require.Equal(t, want, w.Enter(c, true))
	return via, c
}

// adopts gives the lock to a call through a new handle, whoever asks Redis for it.
func (w *world) adopts(t *testing.T, o *owner, l *lease) (*handle, *hold) {
	t.Helper()
	via := w.handle(write)
	if o == nil {
		o = via.OwnerOf(background)
	}
	c := w.Waiter(via, o, true, 1)
	require.True(t, w.EnterBeside(c))
	h, used := w.Grant(c, l, l.token)
	require.True(t, used)
	w.Free(c)
	return via, h
}

// While an adopted hold stands beside a contender, who came before the waiters, it is not passed on to them.
func TestAdoptedHoldIsNotPassedOnPastTheContender(t *testing.T) {
	w := newWorld()
	_, contender := w.enters(t, nil, arbiter.Ask)
	_, waits := w.enters(t, nil, arbiter.Queued)
	l := newLease(10, 5)
	via, h := w.adopts(t, nil, l)
	x := w.Exit(via, nil, errExpired)
	require.Equal(t, exit{Outcome: arbiter.Release, Hold: h, Lease: l, Last: true}, x)
	require.False(t, w.Released("a", l, nil, 0), "nobody needs a place")
	require.Empty(t, waits.C)
	next := newLease(20, 5)
	_, used := w.Grant(contender, next, 20)
	require.True(t, used)
	require.Equal(t, arbiter.Passed, w.Exit(contender.Via, nil, errExpired).Outcome)
	require.NotNil(t, w.Answer(waits))
	require.Equal(t, arbiter.Release, w.HandOff(waits.Via, nil, errExpired).Outcome)
	w.Released("a", next, nil, 0)
	require.Zero(t, w.Len())
}

// A call of the same owner that asks Redis has the hold, too; and both end it.
func TestAdoptedHoldLetsItsOwnerIn(t *testing.T) {
	w, o := newWorld(), new(owner)
	_, contender := w.enters(t, o, arbiter.Ask)
	via, h := w.adopts(t, o, newLease(10, 5))
	require.Len(t, contender.C, 1)
	require.Same(t, h, w.Quit(contender))
	require.Equal(t, arbiter.Kept, w.HandOff(via, o, errExpired).Outcome)
	require.Equal(t, arbiter.Kept, w.Exit(via, o, errExpired).Outcome)
	require.Equal(t, arbiter.Release, w.HandOff(via, o, errExpired).Outcome)
	require.Equal(t, arbiter.NotHeld, w.HandOff(via, o, errExpired).Outcome)
}

// A hold that is handed off goes to nobody here, and the next waiter asks Redis.
func TestHandedOffHoldIsNotPassedOn(t *testing.T) {
	w := newWorld()
	l := newLease(10, 5)
	via, _ := w.adopts(t, nil, l)
	_, waits := w.enters(t, nil, arbiter.Queued)
	x := w.HandOff(via, nil, errExpired)
	require.Equal(t, []any{arbiter.Release, int64(0)}, []any{x.Outcome, x.Next})
	require.Empty(t, waits.C)
	require.True(t, w.Released("a", l, nil, 1))
	require.Len(t, waits.C, 1)
	require.Nil(t, w.Answer(waits))
}

// Who adopts has lost a hold unnoticed: that is told before the ticket is used up.
func TestAdoptNoticesAnExpiredHold(t *testing.T) {
	w, o := newWorld(), new(owner)
	old := newLease(10, 0)
	via, h := w.adopts(t, o, old)
	old.until.Store(0)
	require.False(t, w.EnterBeside(w.Waiter(via, o, true, 1)))
	require.Equal(t, arbiter.Lost, h.State())
	require.Equal(t, arbiter.WasLost, w.Exit(via, o, errExpired).Outcome)
	require.Zero(t, w.Len())
}
