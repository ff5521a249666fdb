package arbiter_test

import (
	"fmt"
	"testing"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/stretchr/testify/require"
)

// asks is a call that is to ask Redis.
func (w *world) asks(t *testing.T, l *lock, o *owner) *waiter {
	t.Helper()
	c := w.Waiter(l, o, true, 1)
	require.Equal(t, arbiter.Ask, w.Enter(c, true))
	return c
}

// A process may have ten thousand holds of one name. What happens to one of them costs no look at
// the others.
func TestOneOfManyHoldsIsFoundWithoutTheOthers(t *testing.T) {
	const n = 1000
	w := newWorld()
	w.Open = true
	v := w.lock(read)
	var leases []*lease
	var holds []*hold
	for token := range int64(n) {
		leases = append(leases, newLease(token, 0))
		h, used := w.Grant(w.asks(t, v, nil), leases[token], token)
		require.True(t, used)
		holds = append(holds, h)
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
	for i, h := range holds {
		want := arbiter.WasLost
		if i >= n/2 {
			want = arbiter.Release
		}
		require.Equal(t, want, w.exits(h).Outcome)
		require.Equal(t, arbiter.NotHeld, w.exits(h).Outcome)
	}
	require.Zero(t, w.Len())
}

// In an open table Redis tells with the next grant that a hold was lost without anybody noticing. A
// grant from before that one is none.
func TestNewestTokenWinsInAnOpenTable(t *testing.T) {
	w := newWorld()
	w.Open = true
	v := w.lock(write)
	first, late, next := w.asks(t, v, newOwner()), w.asks(t, v, newOwner()), w.asks(t, v, newOwner())
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
