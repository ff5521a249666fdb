package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// A call that makes one attempt waits in the process for the release of what was kept, without a
// place in Redis.
func TestOneAttemptTakesNoPlace(t *testing.T) {
	w := newWorld()
	l := newLease(10, 0)
	l.keeps = true
	c := w.Waiter(w.lock(write), nil, true, 1)
	c.Keep = 1
	require.Equal(t, arbiter.Ask, w.Enter(c, true))
	h, used := w.Grant(c, l, 10)
	require.True(t, used)
	require.Equal(t, arbiter.Idle, w.exits(h).Outcome)
	tries := w.Waiter(w.lock(write), nil, true, 1)
	require.Equal(t, arbiter.Stale, w.Enter(tries, false))
	require.Same(t, l, tries.Kept)
	require.False(t, w.Released("a", l, l, 1), "nobody needs a place")
	require.Len(t, tries.C, 1)
	require.Zero(t, tries.Place)
	require.Nil(t, w.Quit(tries))
	require.Zero(t, w.Len())
}

// A call that asked Redis before its owner lost a hold gets nothing until that is unlocked.
func TestLossOfAnOwnerIsUnlockedBeforeTheNextGrant(t *testing.T) {
	w, o := newWorld(), newOwner()
	w.Open = true // where calls ask for themselves
	contender := w.enters(t, o, arbiter.Ask)
	lost := newLease(10, 0)
	h, used := w.Grant(w.enters(t, o, arbiter.Ask), lost, 10)
	require.True(t, used)
	require.Same(t, h, w.Quit(contender), "it has the hold, too")
	contender = w.Waiter(w.lock(read), o, false, 1) // of the other side
	require.Equal(t, arbiter.Ask, w.Enter(contender, true))
	w.Lose("a", lost, errExpired)
	none, used := w.Grant(contender, newLease(20, 0), 20)
	require.Nil(t, none)
	require.False(t, used)
	require.Equal(t, arbiter.WasLost, w.exits(h).Outcome)
	none, used = w.Grant(contender, newLease(20, 0), 20)
	require.Nil(t, none)
	require.False(t, used, "not before its last unlock")
	require.Equal(t, arbiter.WasLost, w.exits(h).Outcome)
	next, used := w.Grant(contender, newLease(30, 0), 30)
	require.True(t, used)
	require.Equal(t, arbiter.Release, w.exits(next).Outcome)
}

// A call without an owner loses a hold, and the next one has the lock all the same.
func TestLossOfACallStopsNoOther(t *testing.T) {
	w := newWorld()
	lost := newLease(10, 0)
	h, used := w.Grant(w.enters(t, nil, arbiter.Ask), lost, 10)
	require.True(t, used)
	w.Lose("a", lost, errExpired)
	next, used := w.Grant(w.enters(t, nil, arbiter.Ask), newLease(20, 0), 20)
	require.True(t, used)
	require.Equal(t, arbiter.WasLost, w.exits(h).Outcome)
	require.Equal(t, arbiter.NotHeld, w.exits(h).Outcome, "once")
	require.Equal(t, arbiter.Release, w.exits(next).Outcome)
}

// An Unlock of the lock ends only what was locked, and the end of a Hold only what was acquired.
func TestUnlockOfAnOwnerEndsWhatItHasLocked(t *testing.T) {
	w, o := newWorld(), newOwner()
	h, used := w.Grant(w.enters(t, o, arbiter.Ask), newLease(10, 0), 10) // acquired
	require.True(t, used)
	l := w.lock(write)
	require.Equal(t, arbiter.NotHeld, w.ExitOwner(l, o, errExpired).Outcome)
	require.Same(t, h, w.Reenter(l, o, true)) // locked
	require.True(t, h.Due())
	require.True(t, w.ExitInner(l, o))
	require.False(t, h.Due())
	require.False(t, w.ExitInner(l, o))
	require.Same(t, h, w.Reenter(l, o, true))
	require.Equal(t, arbiter.Kept, w.exits(h).Outcome)
	require.Equal(t, arbiter.Release, w.ExitOwner(l, o, errExpired).Outcome)
	require.Equal(t, arbiter.NotHeld, w.ExitOwner(l, o, errExpired).Outcome)
}
