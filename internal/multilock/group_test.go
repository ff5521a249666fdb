package multilock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/arbiter"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockerr"
	"github.com/stretchr/testify/require"
)

var background = context.Background()

func TestMembersAreLockedInTheOrderOfTheirNames(t *testing.T) {
	var j journal
	write, read := j.member("b"), j.member("b")
	read.after = 1
	for _, locks := range [][]engine.Locker{
		{j.member("c"), read, j.member("a"), write},
		{read, write, j.member("c"), j.member("a")},
	} {
		g := New(locks...)
		require.NoError(t, g.Lock(background))
		require.Equal(t, []string{"try a", "try b", "try c", "try b"}, j.taken())
		require.Same(t, write, g.members[1], "of one name, what an owner must lock first comes first")
		require.Same(t, read, g.members[2])
		require.Equal(t, [][]int{{0, 1, 3}, {2}}, g.batches)
		require.NoError(t, g.Unlock(background))
		j.taken()
	}
}

// A group waits for a member that is taken with nothing in its hands. After some rounds it waits while it holds
// members, but only for one that is later in the order.
func TestGroupWaitsForNothingEarlierWhileItHoldsAMember(t *testing.T) {
	var j journal
	a, b, x := j.member("a"), j.member("b"), j.strange("x")
	a.busy, b.busy, x.busy = 2, 3, 1
	g := New(b, x, a)
	require.NoError(t, g.Lock(background))
	require.Equal(t, []string{
		"try a", "try b",
		"lock a", "try b", "give back a",
		"lock b", "try a", "give back b",
		"lock a", "try b", // a is kept
		"lock b", "try x", "give back a", "give back b", // x has no place in the order
		"lock x", "try a", "try b",
	}, j.taken())
	require.NoError(t, g.Unlock(background))
	require.ElementsMatch(t, []string{"unlock a", "unlock b", "unlock x"}, j.taken())
}

// Trouble that may pass ends no Lock: it waits for the member.
func TestGroupRidesOutTrouble(t *testing.T) {
	var j journal
	a, b, x := j.member("a"), j.member("b"), j.strange("x")
	b.once, x.once = engine.ErrLate, engine.ErrLate
	g := New(b, x, a)
	require.NoError(t, g.Lock(background))
	require.Equal(t, []string{
		"try a", "try b", "give back a", "lock b", "try a", "try x", "give back a", "give back b", "lock x", "try a", "try b",
	}, j.taken())
	require.NoError(t, g.Unlock(background))
}

func TestGroupThatDoesNotGetAMemberGivesTheOthersBack(t *testing.T) {
	var j journal
	a, b, c, x := j.member("a"), j.member("b"), j.member("c"), j.strange("x")
	x.busy = 1
	g := New(a, b, c, x)
	ok, err := g.TryLock(background)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, []string{"try a", "try b", "try c", "try x", "give back a", "give back b", "give back c"}, j.taken())

	c.err = errors.New("no")
	require.ErrorIs(t, g.Lock(background), c.err)
	require.Equal(t, []string{"try a", "try b", "try c", "give back a", "give back b", "lock c"}, j.taken())
	require.ErrorIs(t, g.Unlock(background), lockerr.ErrNotHeld)
}

func TestGroupIsLostWithItsFirstMember(t *testing.T) {
	cause := lockerr.ErrGone
	for what, lose := range map[string]func(m *member, x *strange){
		"one that is known":   func(m *member, _ *strange) { m.End(arbiter.Lost, cause) },
		"one that is unknown": func(_ *member, x *strange) { close(x.done) },
	} {
		var j journal
		a, b, x := j.member("a"), j.member("b"), j.strange("x")
		g := New(a, b, x)
		require.NoError(t, g.Lock(background))
		require.NoError(t, g.Err())
		lose(b, x)
		select {
		case <-g.Done():
		case <-time.After(20 * time.Second):
			t.Fatal("the loss is not told: ", what)
		}
		require.ErrorIs(t, g.Err(), lockerr.ErrLost)
		ok, err := g.TryLock(background)
		require.False(t, ok)
		require.ErrorIs(t, err, lockerr.ErrUnlockFirst)
		require.ErrorIs(t, g.Unlock(background), lockerr.ErrLost)
		require.ErrorIs(t, g.Unlock(background), lockerr.ErrNotHeld)
		require.Zero(t, a.Watchers(), "an unlocked group listens for losses")
	}
}

// A member may be lost while the group asks for another one.
func TestGroupIsNotLockedWithAMemberThatIsLost(t *testing.T) {
	var j journal
	a, b := j.member("a"), j.member("b")
	b.then = func() { a.End(arbiter.Lost, lockerr.ErrGone) }
	g := New(a, b)
	ok, err := g.TryLock(background)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, []string{"try a", "try b", "give back a", "give back b"}, j.taken())
	a.Hold = new(arbiter.Hold[int])
	require.NoError(t, g.Lock(background))
	require.NoError(t, g.Unlock(background))
}

// A Lock through a group that was lost waits for the Unlock of that, which is another goroutine's.
func TestGroupWaitsForTheUnlockOfALostHold(t *testing.T) {
	var j journal
	a := j.member("a")
	g := New(a)
	require.NoError(t, g.Lock(background))
	a.End(arbiter.Lost, lockerr.ErrGone)
	got := make(chan error)
	go func() { got <- g.Lock(background) }()
	select {
	case <-got:
		t.Fatal("it does not wait")
	case <-time.After(20 * time.Millisecond):
	}
	ended, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.Lock(ended), lockerr.ErrUnlockFirst)
	a.Hold = new(arbiter.Hold[int])
	require.ErrorIs(t, g.Unlock(background), lockerr.ErrLost)
	require.NoError(t, <-got)
	require.NoError(t, g.Unlock(background))
}

// What was taken last lasts longest. What has expired meanwhile does not go on with it, also if nobody has noticed.
func TestReadersThroughAGroupShareAHold(t *testing.T) {
	var j journal
	a := j.member("a")
	g := New(a)
	require.NoError(t, g.Lock(background))
	require.NoError(t, g.Lock(background))
	require.Equal(t, []string{"try a", "try a", "unlock a"}, j.taken())
	require.NoError(t, g.Unlock(background))
	require.NoError(t, g.Err())
	require.Empty(t, j.taken())

	old, owner := a.Hold, g.handle.Latest().Lease().owner
	a.then = func() {
		a.Hold = new(arbiter.Hold[int])
		a.look = func(o *arbiter.Owner) {
			if o == owner {
				old.End(arbiter.Lost, lockerr.ErrExpired)
			}
		}
	}
	ok, err := g.TryLock(background)
	require.False(t, ok)
	require.ErrorIs(t, err, lockerr.ErrUnlockFirst)
	require.Equal(t, []string{"try a", "unlock a"}, j.taken(), "the new one")
	require.ErrorIs(t, g.Err(), lockerr.ErrLost)
	require.ErrorIs(t, g.Unlock(background), lockerr.ErrLost)
	require.Equal(t, []string{"unlock a"}, j.taken())
	require.ErrorIs(t, g.Unlock(background), lockerr.ErrNotHeld)
}

// The hold of a lost Group is unlocked with its last Lock.
func TestOwnerOfALostGroupUnlocksItsMembersLast(t *testing.T) {
	var j journal
	a, x := j.member("a"), j.strange("x")
	g := New(a, x)
	ctx := arbiter.WithOwner(background, new(arbiter.Owner))
	require.NoError(t, g.Lock(ctx))
	require.NoError(t, g.Lock(ctx))
	a.End(arbiter.Lost, lockerr.ErrGone)
	j.taken()
	require.ErrorIs(t, g.Unlock(ctx), lockerr.ErrLost)
	require.Empty(t, j.taken())
	require.ErrorIs(t, g.Unlock(ctx), lockerr.ErrLost)
	require.ElementsMatch(t, []string{"unlock a", "unlock x"}, j.taken())
}
