package arbiter_test

import (
	"fmt"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// asks is a call that is to ask Redis.
func (w *world) asks(t *testing.T, via *handle, o *owner) *waiter {
	t.Helper()
	c := w.Waiter(via, o, true, 1)
	require.Equal(t, arbiter.Ask, w.Enter(c, true))
	return c
}

// Holds that are over do not stay in the memory of their handle.
func TestHandleForgetsHoldsThatAreOver(t *testing.T) {
	w, o := newWorld(), new(owner)
	v := w.handle(write)
	for token := range int64(100) {
		l := newLease(token, 0)
		_, used := w.Grant(w.asks(t, v, o), l, token)
		require.True(t, used)
		require.Equal(t, arbiter.Release, w.Exit(v, o, errExpired).Outcome)
		w.Released("a", l, nil, 0)
	}
	require.LessOrEqual(t, v.Open(), 3)
}

// A process may have ten thousand holds of one name. What happens to one of them costs no look at the others.
func TestOneOfManyHoldsIsFoundWithoutTheOthers(t *testing.T) {
	const n = 1000
	w := newWorld()
	w.Open = true
	v := w.handle(read)
	v.Many = true
	var leases []*lease
	for token := range int64(n) {
		leases = append(leases, newLease(token, 0))
		_, used := w.Grant(w.asks(t, v, v.OwnerOf(background)), leases[token], token)
		require.True(t, used)
	}
	require.ElementsMatch(t, leases, w.Leases("a"))
	w.ids.Store(0)
	for i, l := range leases[:n/2] {
		got, found := w.Find("a", fmt.Sprintf("%p", l))
		require.True(t, found)
		require.Same(t, l, got)
		lost, _ := w.Lose("a", l, errLost)
		require.Len(t, lost, 1)
		_, found = w.Find("a", fmt.Sprintf("%p", l))
		require.False(t, found, i)
	}
	require.LessOrEqual(t, w.ids.Load(), int64(5*n/2))
	for range n / 2 {
		require.Equal(t, arbiter.WasLost, w.Exit(v, nil, errExpired).Outcome)
	}
	for left := range n / 2 {
		require.Equal(t, arbiter.Release, w.Exit(v, nil, errExpired).Outcome)
		require.Same(t, leases[n-1], v.Latest().Lease())
		require.LessOrEqual(t, v.Open(), n-left+1)
	}
	require.Zero(t, w.Len())
}

// In an open table Redis tells with the next grant that a hold was lost without anybody noticing. A grant from
// before that one is none.
func TestNewestTokenWinsInAnOpenTable(t *testing.T) {
	w := newWorld()
	w.Open = true
	v := w.handle(write)
	first, late, next := w.asks(t, v, new(owner)), w.asks(t, v, new(owner)), w.asks(t, v, new(owner))
	old, used := w.Grant(first, newLease(1, 0), 1)
	require.True(t, used)
	h, used := w.Grant(next, newLease(3, 0), 3)
	require.True(t, used)
	require.Equal(t, errExpired, old.Cause())
	got, used := w.Grant(late, newLease(2, 0), 2)
	require.False(t, used)
	require.Nil(t, got)
	require.Nil(t, w.Quit(late))
	require.Equal(t, arbiter.Live, h.State())
}
