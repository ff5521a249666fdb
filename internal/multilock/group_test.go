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
	for _, locks := range [][]Locker{
		{j.member("c"), read, j.member("a"), write},
		{read, write, j.member("c"), j.member("a")},
	} {
		g := New(locks...)
		require.NoError(t, g.Lock(background))
		require.Equal(t, []string{"lock a", "lock b", "try b", "lock c"}, j.taken())
		require.Same(t, write, g.members[1], "of one name, what an owner must lock first comes first")
		require.Same(t, read, g.members[2])
	}
}

// A group that holds a member waits only for one that is later in the order. For one that
// has no place there it waits with nothing in its hands.
func TestGroupWaitsForNothingEarlierWhileItHoldsAMember(t *testing.T) {
	var j journal
	a, b, x := j.member("a"), j.member("b"), j.stranger("x")
	a.busy = true
	g := New(b, x, a)
	require.NoError(t, g.Lock(background))
	require.Equal(t, []string{
		"lock x", "try a", // where x comes is not known
		"unlock x", "lock a", "try x", "lock b",
	}, j.taken())
	require.NoError(t, g.Unlock(background))
	require.ElementsMatch(t, []string{"unlock a", "unlock b", "unlock x"}, j.taken())

	x.busy = true
	g = New(j.stranger("y"), x)
	require.NoError(t, g.Lock(background))
	require.Equal(t, []string{"lock y", "try x", "unlock y", "lock x", "try y"}, j.taken())
	require.NoError(t, g.Unlock(background))
}

func TestGroupThatDoesNotGetAMemberGivesTheOthersBack(t *testing.T) {
	var j journal
	a, b, c, x := j.member("a"), j.member("b"), j.member("c"), j.stranger("x")
	b.busy = true
	g := New(a, b, c, x)
	ok, err := g.TryLock(background)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, []string{"try x", "try a", "try b", "unlock x", "give back a"}, j.taken())

	c.err = errors.New("no")
	require.ErrorIs(t, g.Lock(background), c.err)
	require.Equal(t, []string{"lock x", "try a", "lock b", "lock c", "unlock x", "give back a", "give back b"}, j.taken())
	require.ErrorIs(t, g.Unlock(background), lockerr.ErrNotHeld)
}

func TestGroupIsLostWithItsFirstMember(t *testing.T) {
	for what, lose := range map[string]func(m *member, x *stranger){
		"one that is known":   func(m *member, _ *stranger) { (*m.end)(arbiter.Lost) },
		"one that is unknown": func(_ *member, x *stranger) { close(x.done) },
	} {
		var j journal
		a, b, x := j.member("a"), j.member("b"), j.stranger("x")
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
		require.ErrorIs(t, g.Unlock(background), lockerr.ErrLost)
		require.ErrorIs(t, g.Unlock(background), lockerr.ErrNotHeld)
		require.Nil(t, a.end, "an unlocked group listens for losses")
	}
}

func TestGroupWhoseMembersExcludeEachOtherIsRefused(t *testing.T) {
	s := engine.New(nil, engine.Config{Lease: time.Minute})
	m, f := s.Mutex("a", engine.LockConfig{}), s.FairMutex("a", engine.LockConfig{})
	var none *member
	for what, g := range map[string]*Group{
		"no member":           New(),
		"nil":                 New(&m, nil),
		"a nil pointer":       New(&m, none),
		"two kinds of a lock": New(&m, &f),
	} {
		require.ErrorIs(t, g.Lock(background), lockerr.ErrOption, what)
	}
	require.ErrorIs(t, new(Group).Lock(background), lockerr.ErrZero)
	require.NoError(t, New(&m, &m).usable("lock group"), "a lock that is a member twice is locked twice")
}

func TestMutexesOfOneSessionAreTakenByOneScript(t *testing.T) {
	one := engine.New(nil, engine.Config{Lease: time.Minute})
	other := engine.New(nil, engine.Config{Lease: time.Minute})
	other.SetDeployment("another deployment")
	a, b := one.Mutex("a", engine.LockConfig{}), one.Mutex("b", engine.LockConfig{})
	c, f := other.Mutex("c", engine.LockConfig{}), one.FairMutex("f", engine.LockConfig{})
	require.Equal(t, []*engine.Mutex{&a, &b}, New(&b, &a).fast)
	require.Nil(t, New(&a, &b, &c).fast, "of two sessions")
	require.Nil(t, New(&a, &b, &f).fast, "of two kinds")
}
