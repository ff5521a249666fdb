package arbiter_test

import (
	"errors"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

func TestLeaseIsPassedOnInOrderOfArrival(t *testing.T) {
	w := empty(t, false)
	a, b, c := w.handle(write), w.handle(write), w.handle(write)
	first := w.take(a, nil, 2)
	second, third := w.lock(b, nil).is(arbiter.Queued), w.lock(c, nil).is(arbiter.Queued)
	w.exits(a, nil, arbiter.Passed)
	h := second.holds()
	third.waits()
	require.True(t, h.Passed)
	require.Same(t, first.Lease(), h.Lease())
	require.Equal(t, first.Token+1, h.Token)
	w.is(first, arbiter.Ended)
	w.exits(b, nil, arbiter.Passed)
	require.Equal(t, first.Token+2, third.holds().Token)
	w.leaves(c, nil)
}

// A waiter whose lease has another length, or is not shared, gets one of its own; so does
// everybody once the lease may not be passed on any more.
func TestLeaseIsPassedOnAmongEqualsOnly(t *testing.T) {
	w := empty(t, false)
	v, other := w.handle(write), w.handle(write)
	for _, c := range []struct {
		passes   int
		passable bool
		class    int64
		next     int64
	}{
		{0, true, 0, 0}, {1, true, 7, 7}, {1, false, 0, 0}, {0, true, 7, 7}, {0, false, 7, 0},
	} {
		w.take(v, nil, c.passes)
		waits := &call{waiter: w.Waiter(other, ownerOf(other, nil), c.passable, c.class), w: w}
		require.Equal(t, arbiter.Queued, w.Enter(waits.waiter, true))
		x := w.exits(v, nil, arbiter.Release)
		require.Equal(t, c.next, x.Next)
		waits.waits()
		w.Released("a", x.Lease, nil, 0)
		waits.asks().quits()
	}
}

// A release takes the place in Redis of the waiter that wanted it, if that has not left meanwhile.
func TestReleaseTakesAPlaceForTheNext(t *testing.T) {
	w := empty(t, false)
	v, place := w.handle(write), newLease(0, 0)
	next := func() *call {
		c := &call{waiter: w.Waiter(v, ownerOf(v, nil), true, 7), w: w}
		require.Equal(t, arbiter.Queued, w.Enter(c.waiter, true))
		return c
	}
	w.take(v, nil, 0)
	c := next()
	x := w.exits(v, nil, arbiter.Release)
	require.True(t, w.Released("a", x.Lease, place, x.Next))
	c.asks()
	require.Same(t, place, c.Place)
	c.quits()

	w.take(v, nil, 0)
	c = next()
	x = w.exits(v, nil, arbiter.Release)
	c.quits()
	other := w.lock(v, nil).is(arbiter.Queued)
	require.False(t, w.Released("a", x.Lease, place, x.Next), "the next one wants another length")
	require.Nil(t, other.asks().Place)
	other.quits()

	w.take(v, nil, 0)
	x = w.exits(v, nil, arbiter.Release)
	c = next()
	require.Empty(t, w.Lose("a", x.Lease, errLost), "its last unlock has been called")
	require.Nil(t, c.asks().Place)
	require.False(t, w.Released("a", x.Lease, place, 7))
	c.quits()
}

// In an open table Redis tells with the next grant that a hold was lost without anybody noticing.
func TestNewestTokenWinsInAnOpenTable(t *testing.T) {
	w := empty(t, true)
	a, b := w.handle(write), w.handle(write)
	old := w.take(a, nil, 0)
	late, next := w.lock(b, nil).is(arbiter.Ask), w.lock(b, nil).is(arbiter.Ask)
	h := next.grant(0)
	w.is(old, arbiter.Lost)
	require.Equal(t, errGone, old.Cause())
	w.exits(a, nil, arbiter.WasLost)
	got, used := w.Grant(late.waiter, newLease(1, 0), 1)
	require.False(t, used)
	require.Nil(t, got, "a grant from before that one")
	w.is(h, arbiter.Live)
	late.quits()
	w.leaves(b, nil)
}

func TestCancelledCallReturnsWhatItGotMeanwhile(t *testing.T) {
	w := empty(t, false)
	v, other := w.handle(write), w.handle(write)
	w.take(v, nil, 1)
	c := w.lock(other, nil).is(arbiter.Queued)
	w.exits(v, nil, arbiter.Passed)
	h := w.Quit(c.waiter)
	require.Same(t, h, w.Lookup("a"))
	x := w.Return(other, h, errExpired)
	require.Equal(t, arbiter.Release, x.Outcome)
	require.Equal(t, arbiter.NotHeld, w.Return(other, h, errExpired).Outcome, "twice")
	w.Released("a", x.Lease, nil, 0)
	w.exits(other, nil, arbiter.NotHeld)
}

func TestBlockedCallKnowsWhatItWaitsFor(t *testing.T) {
	w := empty(t, false)
	v, readers := w.handle(write), w.handle(read)
	require.Zero(t, w.Blocked(v))
	c := w.lock(v, nil).is(arbiter.Ask)
	require.Zero(t, w.Blocked(v))
	w.Report(c.waiter, nil)
	require.True(t, w.Blocked(v).Refused)
	err := errors.New("no answer")
	w.Report(c.waiter, err)
	b := w.Blocked(v)
	require.False(t, b.Refused)
	require.Equal(t, err, b.Err)
	require.Zero(t, w.Blocked(readers))
	h := c.grant(0)
	require.True(t, w.Blocked(v).Held)
	require.Same(t, h.Lease(), w.Blocked(readers).Lease)
	w.leaves(v, nil)

	r := w.lock(readers, nil).is(arbiter.Ask)
	w.Report(r.waiter, err)
	require.Equal(t, err, w.Blocked(readers).Err)
	l := r.reads(never, never).Lease()
	require.Same(t, l, w.Blocked(v).Lease)
	require.False(t, w.Blocked(readers).Held)
	w.exits(readers, nil, arbiter.Release)
}
