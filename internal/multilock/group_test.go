package multilock

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

var background = context.Background()

// What a group does with its members, but in which order, is tested with real locks, in test/locks
// and test/virtual.

func TestMembersAreLockedInTheOrderOfTheirNames(t *testing.T) {
	var j journal
	write, read := j.member("b"), j.member("b")
	read.rank = 1
	for _, locks := range [][]any{
		{j.member("c"), read, j.member("a"), write},
		{read, write, j.member("c"), j.member("a")},
	} {
		g := New(locks...)
		h, err := g.Take(background, nil, nil, true, false)
		require.NoError(t, err)
		require.Equal(t, []string{"try a", "try b", "try c", "try b"}, j.taken())
		require.Same(t, write, g.members[1], "of one name, what an owner must lock first comes first")
		require.Same(t, read, g.members[2])
		require.Equal(t, [][]int{{0, 1, 3}, {2}}, g.batches)
		require.NoError(t, g.Release(background, h, false))
		j.taken()
	}
}

// One attempt asks for one member after the other: of several groups that do so at the same time
// one gets all.
func TestOneAttemptAsksInOrder(t *testing.T) {
	var j journal
	b := j.member("b")
	b.busy = 1
	h, err := New(j.member("c"), b, j.member("a")).Take(background, nil, nil, false, false)
	require.NoError(t, err)
	require.Nil(t, h)
	require.Equal(t, []string{"try a", "try b", "give back a"}, j.taken())
}

// A group waits for a member that is taken with nothing in its hands. After some rounds it waits
// while it holds members, but only for one that is later in the order.
func TestGroupWaitsForNothingEarlierWhileItHoldsAMember(t *testing.T) {
	var j journal
	a, b, x := j.member("a"), j.member("b"), j.strange("x")
	a.busy, b.busy, x.busy = 2, 3, 1
	g := New(b, x, a)
	h, err := g.Take(background, nil, nil, true, false)
	require.NoError(t, err)
	require.Equal(t, []string{
		"try a", "try b",
		"lock a", "try b", "give back a",
		"lock b", "try a", "give back b",
		"lock a", "try b", // a is kept
		"lock b", "try x", "give back a", "give back b", // x has no place in the order
		"lock x", "try a", "try b",
	}, j.taken())
	require.NoError(t, g.Release(background, h, false))
	require.ElementsMatch(t, []string{"unlock a", "unlock b", "unlock x"}, j.taken())
}
