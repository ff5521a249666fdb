package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// enters has a call ask for the lock.
func (w *world) enters(t *testing.T, o *owner, want arbiter.Verdict) *waiter {
	t.Helper()
	c := w.Waiter(w.lock(write), o, true, 1)
	require.Equal(t, want, w.Enter(c, true))
	return c
}

// adopts gives the lock to a call, whoever asks Redis for it.
func (w *world) adopts(t *testing.T, o *owner, l *lease) *hold {
	t.Helper()
	c := w.Waiter(w.lock(write), o, true, 1)
	require.True(t, w.EnterBeside(c))
	h, used := w.Grant(c, l, l.token)
	require.True(t, used)
	w.Free(c)
	return h
}

// exits ends one call of h.
func (w *world) exits(h *hold) exit { return w.Exit(w.lock(h.Side()), h, false, errExpired) }

// While an adopted hold stands beside a contender, who came before the waiters, it is not passed on
// to them.
func TestAdoptedHoldIsNotPassedOnPastTheContender(t *testing.T) {
	w := newWorld()
	contender := w.enters(t, nil, arbiter.Ask)
	waits := w.enters(t, nil, arbiter.Queued)
	l := newLease(10, 5)
	h := w.adopts(t, nil, l)
	require.Equal(t, exit{Outcome: arbiter.Release, Hold: h, Lease: l, Last: true}, w.exits(h))
	require.False(t, w.Released("a", l, nil, 0), "nobody needs a place")
	require.Empty(t, waits.C)
	next := newLease(20, 5)
	h, used := w.Grant(contender, next, 20)
	require.True(t, used)
	require.Equal(t, arbiter.Passed, w.exits(h).Outcome)
	h = w.Answer(waits)
	require.NotNil(t, h)
	require.Equal(t, arbiter.Release, w.HandOff(waits.Lock, h, errExpired).Outcome)
	w.Released("a", next, nil, 0)
	require.Zero(t, w.Len())
}

// A call of the same owner that asks Redis has the hold, too; and both end it.
func TestAdoptedHoldLetsItsOwnerIn(t *testing.T) {
	w, o := newWorld(), newOwner()
	contender := w.enters(t, o, arbiter.Ask)
	h := w.adopts(t, o, newLease(10, 5))
	require.Len(t, contender.C, 1)
	require.Same(t, h, w.Quit(contender))
	l := w.lock(write)
	require.Same(t, h, w.Reenter(l, o, false))
	require.Equal(t, arbiter.Kept, w.HandOff(l, h, errExpired).Outcome)
	require.Equal(t, arbiter.Kept, w.exits(h).Outcome)
	require.Equal(t, arbiter.Release, w.HandOff(l, h, errExpired).Outcome)
	require.Equal(t, arbiter.NotHeld, w.HandOff(l, h, errExpired).Outcome)
}

// A hold that is handed off goes to nobody here, and the next waiter asks Redis.
func TestHandedOffHoldIsNotPassedOn(t *testing.T) {
	w := newWorld()
	l := newLease(10, 5)
	h := w.adopts(t, nil, l)
	waits := w.enters(t, nil, arbiter.Queued)
	x := w.HandOff(w.lock(write), h, errExpired)
	require.Equal(t, []any{arbiter.Release, int64(0)}, []any{x.Outcome, x.Next})
	require.Empty(t, waits.C)
	require.True(t, w.Released("a", l, nil, 1))
	require.Len(t, waits.C, 1)
	require.Nil(t, w.Answer(waits))
}

// Who adopts has lost a hold unnoticed: that is told before the ticket is used up.
func TestAdoptNoticesAnExpiredHold(t *testing.T) {
	w, o := newWorld(), newOwner()
	old := newLease(10, 0)
	h := w.adopts(t, o, old)
	old.until.Store(0)
	l := w.lock(write)
	require.Nil(t, w.Reenter(l, o, false), "nor is it entered again")
	require.False(t, w.EnterBeside(w.Waiter(l, o, true, 1)))
	require.Equal(t, arbiter.Lost, h.State())
	require.Equal(t, errExpired, l.LossOf(o))
	require.Equal(t, arbiter.WasLost, w.exits(h).Outcome)
	require.False(t, l.MustUnlockFirst(o))
	require.Zero(t, w.Len())
}
