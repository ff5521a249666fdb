package arbiter_test

import (
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// A call that makes one attempt waits in the process for the release of what was kept, without a place in Redis.
func TestOneAttemptTakesNoPlace(t *testing.T) {
	w := newWorld()
	l := newLease(10, 0)
	l.keeps = true
	keeper := w.handle(write)
	c := w.Waiter(keeper, ownerOf(keeper, nil), true, 1)
	c.Keep = 1
	require.Equal(t, arbiter.Ask, w.Enter(c, true))
	_, used := w.Grant(c, l, 10)
	require.True(t, used)
	require.Equal(t, arbiter.Idle, w.Exit(keeper, nil, errExpired).Outcome)
	via := w.handle(write)
	tries := w.Waiter(via, ownerOf(via, nil), true, 1)
	require.Equal(t, arbiter.Stale, w.Enter(tries, false))
	require.Same(t, l, tries.Kept)
	require.False(t, w.Released("a", l, l, 1), "nobody needs a place")
	require.Len(t, tries.C, 1)
	require.Zero(t, tries.Place)
	require.Nil(t, w.Quit(tries))
	require.Zero(t, w.Len())
}

// A call that asked Redis before its handle lost a hold gets nothing until that is unlocked.
func TestLossOfAHandleIsUnlockedBeforeTheNextGrant(t *testing.T) {
	w := newWorld()
	via, contender := w.enters(t, nil, arbiter.Ask)
	lost := newLease(10, 0)
	beside := w.Waiter(via, ownerOf(via, nil), true, 1)
	require.True(t, w.EnterBeside(beside))
	_, used := w.Grant(beside, lost, 10)
	require.True(t, used)
	w.Lose("a", lost, errExpired)
	h, used := w.Grant(contender, newLease(20, 0), 20)
	require.Nil(t, h)
	require.False(t, used)
	require.Equal(t, arbiter.WasLost, w.Exit(via, nil, errExpired).Outcome)
	_, used = w.Grant(contender, newLease(30, 0), 30)
	require.True(t, used)
	require.Equal(t, arbiter.Release, w.HandOff(via, nil, errExpired).Outcome)
}
