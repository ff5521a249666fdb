package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// namesOf returns the names of holds, and "foreign" for those that are nil.
func namesOf(holds []*relock.Hold) (names []string) {
	for _, h := range holds {
		if h == nil {
			names = append(names, "foreign")
		} else {
			names = append(names, h.Name())
		}
	}
	return names
}

// The members' holds come in the order in which NewGroup was given the members, whatever the order in which they are locked.
func TestMembersOfAGroup(t *testing.T) {
	t.Parallel()
	p := newSite(t, 2)
	s, far := p.sessions[0], p.sessions[1]
	m := s.Mutex("m")
	rw := s.RWMutex("rw")
	g := relock.NewGroup(
		rw.RLocker(), s.Semaphore("z", 2), m, relock.NewGroup(s.FairMutex("d"), stranger{s.Mutex("x")}, far.Mutex("b")), m, rw,
		relock.NewRedlock(p.sessions, "a"), relock.NewGroup(relock.NewGroup(s.Mutex("c"))), stranger{s.Mutex("e")},
	)
	for _, parent := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
		h := kit.Acquire(t, parent, g)
		require.Equal(t, []string{"rw", "z", "m", "d", "foreign", "b", "m", "rw", "a", "c", "foreign"}, namesOf(h.Members()))
		for i, member := range h.Members() {
			if member == nil {
				continue
			}
			isHeld(t, member)
			require.Equal(t, i == 0, member.Token() == 0, "readers have none")
			require.Equal(t, i == 1, member.Slot() == 0, "%d", member.Slot())
			require.Nil(t, member.Members())
			_, ok := member.Deadline()
			require.True(t, ok)
			require.ErrorIs(t, member.Unlock(kit.Background), relock.ErrOption)
			_, err := member.Handoff(kit.Background, time.Minute)
			require.ErrorIs(t, err, relock.ErrOption)
			isHeld(t, member)
		}
		members := h.Members()
		require.Equal(t, members[2].Token(), members[6].Token(), "it is one lock")
		require.Zero(t, h.Token())
		_, ok := h.Deadline()
		require.False(t, ok, "that of a foreign member is not known")
		isHeld(t, h)
		require.NoError(t, h.Unlock(kit.Background))
		hasEnded(t, h, 0)
		for _, member := range append(members, h.Members()...) {
			if member != nil {
				require.ErrorIs(t, member.Err(), relock.ErrNotHeld)
				require.True(t, kit.IsClosed(member.Done()))
				require.ErrorIs(t, member.Unlock(kit.Background), relock.ErrOption)
			}
		}
		nothingLeft(t, p.clients...)
	}
}

// What the owner has of a member beside the group does not end with the group, but what the group has of it does.
func TestMembersEndWithTheGroup(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	owner := s.NewContext(kit.Background)
	m := s.Mutex("m")
	beside := kit.Acquire(t, owner, m)
	h := kit.Acquire(t, owner, relock.NewGroup(m, s.Mutex("other")))
	member := h.Members()[0]
	require.Equal(t, beside.Token(), member.Token())
	done := member.Done()
	require.NoError(t, h.Unlock(owner))
	require.ErrorIs(t, member.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, h.Members()[0].Err(), relock.ErrNotHeld)
	require.True(t, kit.IsClosed(done))
	_, ok := member.Deadline()
	require.False(t, ok)
	isHeld(t, beside)
	require.NoError(t, beside.Unlock(owner))
}

// A group is lost with its first member. The other members are held until it is unlocked.
func TestHoldOfAGroupIsLostWithAMember(t *testing.T) {
	t.Parallel()
	s := kit.NewSession(t, redistest.Start(t))
	g := relock.NewGroup(s.Mutex("b"), relock.NewGroup(s.FairMutex("a"), stranger{s.Mutex("x")}))
	for i, name := range []string{"b", "a", "x"} {
		for _, parent := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
			h := kit.Acquire(t, parent, g)
			members := h.Members()
			ctx, cancel := h.Context(kit.Background)
			defer cancel()
			_, err := s.ForceUnlock(kit.Background, name)
			require.NoError(t, err)
			kit.Receive(t, h.Done(), "the loss")
			kit.Receive(t, ctx.Done(), "the end of its context")
			require.ErrorIs(t, h.Err(), relock.ErrLost)
			require.ErrorIs(t, context.Cause(ctx), relock.ErrLost)
			for j, member := range members[:2] {
				if i == j {
					require.ErrorIs(t, member.Err(), relock.ErrLost)
				} else {
					isHeld(t, member)
					require.False(t, kit.TryLock(t, kit.Background, s.Mutex(member.Name())))
				}
			}
			require.ErrorIs(t, h.Unlock(kit.Background), relock.ErrLost)
			for j, member := range members[:2] {
				require.Equal(t, i == j, errors.Is(member.Err(), relock.ErrLost))
				require.Error(t, member.Err())
			}
			require.ErrorIs(t, h.Err(), relock.ErrLost)
			require.ErrorIs(t, h.Unlock(kit.Background), relock.ErrNotHeld)
			require.NoError(t, tryFor(t, parent, g))
		}
	}
}

// An owner enters a group again, which ends with the last of its holds; after a loss, too.
func TestOwnerEntersAGroupAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	owner := s.NewContext(kit.Background)
	g := relock.NewGroup(s.Mutex("a"), s.Mutex("b"))
	first := kit.Acquire(t, owner, g)
	cost := trafficOf(server, func() {
		second := kit.Acquire(t, owner, g)
		kit.Lock(t, owner, g)
		require.NoError(t, first.Unlock(kit.Background))
		kit.Unlock(t, owner, g)
		require.ErrorIs(t, g.Unlock(owner), relock.ErrNotHeld)
		isHeld(t, second)
		first = second
	})
	require.Zero(t, cost)
	require.NoError(t, first.Unlock(kit.Background))
	require.False(t, inspect(t, s, "a").Mode == relock.Exclusive)

	holds := []*relock.Hold{kit.Acquire(t, owner, g), kit.Acquire(t, owner, g)}
	_, err := s.ForceUnlock(kit.Background, "a")
	require.NoError(t, err)
	kit.Receive(t, holds[0].Done(), "the loss")
	for _, h := range holds {
		require.Equal(t, relock.Exclusive, inspect(t, s, "b").Mode, "held until the last has unlocked")
		require.ErrorIs(t, g.Lock(owner), relock.ErrLost)
		require.ErrorIs(t, h.Unlock(kit.Background), relock.ErrLost)
	}
	require.Equal(t, relock.Unlocked, inspect(t, s, "b").Mode)
	require.NoError(t, tryFor(t, owner, g))
}

// Calls of one owner that lock a group at the same time hold it together.
func TestOwnerLocksAGroupAtTheSameTime(t *testing.T) {
	t.Parallel()
	p := newSite(t, 1)
	s := p.sessions[0]
	g := relock.NewGroup(s.Mutex("a"), stranger{s.Mutex("x")}, s.FairMutex("b"))
	for range 20 {
		owner := s.NewContext(kit.Background)
		holder := kit.Acquire(t, kit.Background, s.Mutex("a")) // they wait together
		locked := kit.Async(func() error {
			return kit.Together(10, func(int) error { return g.Lock(owner) })
		})
		time.Sleep(time.Millisecond)
		require.NoError(t, holder.Unlock(kit.Background))
		require.NoError(t, kit.Receive(t, locked, "all to lock"))
		for range 10 {
			require.NoError(t, g.Err())
			kit.Unlock(t, owner, g)
		}
		require.ErrorIs(t, g.Unlock(owner), relock.ErrNotHeld)
		require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
		nothingLeft(t, p.clients...)
	}
}

// hooked is a stranger whose next attempts do something else.
type hooked struct {
	relock.Locker
	next []func(ctx context.Context) (bool, error)
}

func (l *hooked) TryLock(ctx context.Context) (bool, error) {
	if len(l.next) == 0 {
		return l.Locker.TryLock(ctx)
	}
	f := l.next[0]
	l.next = l.next[1:]
	return f(ctx)
}

// A member that fails fails TryLock, which gives the others back. Lock waits for that member: it may have been trouble that
// passes.
func TestGroupWithAMemberThatFails(t *testing.T) {
	t.Parallel()
	p := newSite(t, 1)
	s := p.sessions[0]
	x := &hooked{Locker: s.Mutex("x")}
	g := relock.NewGroup(s.Mutex("a"), x, s.FairMutex("b"))
	fails := func(context.Context) (bool, error) { return false, errOwn }
	x.next = append(x.next, fails, fails)
	h, err := g.TryAcquire(kit.Background)
	require.ErrorIs(t, err, errOwn)
	require.Nil(t, h)
	nothingLeft(t, p.clients...)
	h = kit.Acquire(t, kit.Background, g)
	require.Empty(t, x.next)
	require.NoError(t, h.Unlock(kit.Background))
	nothingLeft(t, p.clients...)
}

// A member may be lost while the group asks for another one: then it has not got them all.
func TestGroupIsNotAcquiredWithAMemberThatIsLost(t *testing.T) {
	t.Parallel()
	p := newSite(t, 1)
	s, other := p.sessions[0], p.more(t)[0]
	x := &hooked{Locker: s.Mutex("x")}
	g := relock.NewGroup(s.Mutex("a"), x)
	loses := func(ctx context.Context) (bool, error) {
		_, err := s.ForceUnlock(kit.Background, "a")
		require.NoError(t, err)
		return x.Locker.TryLock(ctx)
	}
	x.next = append(x.next, loses)
	h, err := g.TryAcquire(kit.Background)
	require.ErrorIs(t, err, relock.ErrTaken)
	require.Nil(t, h)
	nothingLeft(t, p.clients...)
	x.next = append(x.next, loses)
	h = kit.Acquire(t, kit.Background, g)
	require.Empty(t, x.next)
	isHeld(t, h)
	require.False(t, kit.TryLock(t, kit.Background, other.Mutex("a")))
	require.NoError(t, h.Unlock(kit.Background))
}
