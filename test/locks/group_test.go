package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/peek"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// groups are groups of every kind, of locks named a, b and c.
var groups = map[string]func(s *relock.Session) *relock.Group{
	"mutexes": func(s *relock.Session) *relock.Group {
		return relock.NewGroup(s.Mutex("c"), s.Mutex("a"), s.Mutex("b"))
	},
	"all types": func(s *relock.Session) *relock.Group {
		return relock.NewGroup(s.Mutex("c"), s.RWMutex("a").RLocker(), s.FairMutex("b"), s.RWMutex("d"))
	},
	"a group in a group": func(s *relock.Session) *relock.Group {
		return relock.NewGroup(relock.NewGroup(s.Mutex("b"), s.Mutex("a")), s.Mutex("c"))
	},
	"a stranger": func(s *relock.Session) *relock.Group {
		return relock.NewGroup(s.Mutex("a"), stranger{s.Mutex("b")}, s.Mutex("c"))
	},
	"twice the same": func(s *relock.Session) *relock.Group {
		return relock.NewGroup(s.Mutex("a"), s.Mutex("b"), s.Mutex("a"), s.Mutex("c"))
	},
	"a Redlock": func(s *relock.Session) *relock.Group {
		return relock.NewGroup(s.Mutex("a"), relock.NewRedlock([]*relock.Session{s}, "b"), s.Mutex("c"))
	},
}

func eachGroup(t *testing.T, f func(t *testing.T, at kit.Addressed, make func(*relock.Session) *relock.Group)) {
	t.Helper()
	for kind, make := range groups {
		t.Run(kind, func(t *testing.T) {
			kit.OnBoth(t, func(t *testing.T, at kit.Addressed) { f(t, at, make) })
		})
	}
}

func TestGroupIsAllOrNothing(t *testing.T) {
	eachGroup(t, func(t *testing.T, at kit.Addressed, make func(*relock.Session) *relock.Group) {
		waits := newWaits()
		s, other, client := kit.NewSession(t, at, relock.WithObserver(waits)), kit.NewSession(t, at), kit.NewClient(t, at)
		g := make(s)
		for _, name := range []string{"a", "b", "c"} {
			m := other.Mutex(name)
			kit.Lock(t, kit.Background, m)
			require.False(t, kit.TryLock(t, kit.Background, g), "%s is taken", name)
			keysLeft(t, 1, client)
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld)

			got := kit.Async(func() error { return g.Lock(kit.Background) })
			kit.Receive(t, waits.c, "the group to wait for "+name)
			kit.Unlock(t, kit.Background, m)
			require.NoError(t, kit.Receive(t, got, "the group to be locked"))
			require.NoError(t, g.Err())
			for _, name := range []string{"a", "b", "c"} {
				require.Len(t, kit.HoldersOf(t, s, name), 1, name)
			}
			done := g.Done()
			require.False(t, kit.IsClosed(done))
			kit.Unlock(t, kit.Background, g)
			require.True(t, kit.IsClosed(done))
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
			require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrNotHeld)
			nothingLeft(t, client)
		}
	})
}

// However many members of a session there are, they are tried in one pipeline and released in one.
func TestGroupTakesOneRoundTripEachWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := kit.NewSession(t, proxy)
	locks := []relock.Locker{s.FairMutex("fair"), s.RWMutex("rw"), s.RWMutex("read").RLocker()}
	for i := range 7 {
		locks = append(locks, s.Mutex(fmt.Sprint(i)))
	}
	g := relock.NewGroup(locks...)
	for range 3 { // the server knows the scripts
		kit.Lock(t, kit.Background, g)
		kit.Unlock(t, kit.Background, g)
	}
	const delay = 200 * time.Millisecond // one way
	proxy.Delay(delay)
	start := time.Now()
	require.True(t, kit.TryLock(t, kit.Background, g))
	require.Less(t, time.Since(start), 10*2*delay/2)
	for _, l := range locks {
		require.NoError(t, l.Err())
	}
	start = time.Now()
	kit.Unlock(t, kit.Background, g)
	require.Less(t, time.Since(start), 10*2*delay/2)
}

func TestGroupsThatCannotWorkAreRefused(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		client := kit.NewClient(t, at) // one for both: by that miniredis, which has no run id, is known to be one
		s, other := kit.SessionOn(t, client), kit.SessionOn(t, client)
		three := []*relock.Session{s}
		for what, locks := range map[string][]relock.Locker{
			"no member":                         {},
			"nil":                               {s.Mutex("a"), nil},
			"a nil Mutex":                       {(*relock.Mutex)(nil)},
			"a nil Group":                       {(*relock.Group)(nil)},
			"a nil pointer of a stranger":       {(*stranger)(nil)},
			"Mutex and FairMutex of a name":     {s.Mutex("a"), s.FairMutex("a")},
			"Mutex and RWMutex of a name":       {s.Mutex("a"), s.Mutex("b"), s.RWMutex("a").RLocker()},
			"Mutex and Redlock of a name":       {relock.NewRedlock(three, "a"), s.Mutex("a")},
			"one name in two sessions":          {s.Mutex("a"), other.Mutex("a")},
			"FairMutex, one name, two sessions": {s.FairMutex("a"), other.FairMutex("a")},
			"reader and writer in two sessions": {s.RWMutex("a").RLocker(), other.RWMutex("a")},
		} {
			g := relock.NewGroup(locks...)
			err := g.Lock(kit.Background)
			require.ErrorIs(t, err, relock.ErrOption, what)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			ok, err := g.TryLock(kit.Background)
			require.False(t, ok)
			require.ErrorIs(t, err, relock.ErrOption, what)
			require.Error(t, g.Unlock(kit.Background), what)
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld, what)
			require.True(t, kit.IsClosed(g.Done()), what)
		}
		require.Empty(t, kit.Keys(t, client))
	})
}

// What excludes nobody is no reason to refuse.
func TestGroupsThatLookAlikeWork(t *testing.T) {
	t.Parallel()
	server, elsewhere := redistest.Start(t), redistest.Start(t)
	s, other, far := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewSession(t, elsewhere)
	for what, locks := range map[string][]relock.Locker{
		"readers in two sessions":   {s.RWMutex("a").RLocker(), other.RWMutex("a").RLocker()},
		"both sides of one RWMutex": {s.RWMutex("a").RLocker(), s.RWMutex("a")},
		"one name in two places":    {s.Mutex("a"), far.Mutex("a")},
		"types of one name, apart":  {s.Mutex("a"), far.FairMutex("a")},
		"two handles of one Redlock": {
			relock.NewRedlock([]*relock.Session{s, far}, "a"), relock.NewRedlock([]*relock.Session{far, s}, "a"),
		},
		"a member and its group":     {s.Mutex("a"), relock.NewGroup(s.Mutex("a"), s.Mutex("b"))},
		"handles of one name":        {s.Mutex("a"), s.Mutex("a"), s.Mutex("a")},
		"a group that is its member": {relock.NewGroup(relock.NewGroup(far.RWMutex("b")))},
	} {
		g := relock.NewGroup(locks...)
		for range 2 {
			kit.Lock(t, kit.Background, g)
			require.NoError(t, g.Err(), what)
			kit.Unlock(t, kit.Background, g)
			require.True(t, kit.TryLock(t, kit.Background, g), what)
			kit.Unlock(t, kit.Background, g)
		}
		for _, at := range []kit.Addressed{server, elsewhere} {
			require.Empty(t, kit.Keys(t, kit.NewClient(t, at)), what)
		}
	}
}

func TestGroupIsReentrantWhereItsMembersAre(t *testing.T) {
	eachGroup(t, func(t *testing.T, at kit.Addressed, make func(*relock.Session) *relock.Group) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		g, same := make(s), make(s)
		ctx := s.NewContext(kit.Background)
		kit.Lock(t, ctx, g)
		kit.Lock(t, ctx, g)
		kit.Lock(t, ctx, same)
		require.False(t, kit.TryLock(t, kit.Background, g), "another owner")
		require.ErrorIs(t, g.Unlock(s.NewContext(kit.Background)), relock.ErrNotHeld, "another owner")
		kit.Unlock(t, ctx, g)
		kit.Unlock(t, ctx, same)
		require.NoError(t, g.Err())
		require.NotEmpty(t, kit.Keys(t, client))
		kit.Unlock(t, kit.Background, g) // without an owner: the latest hold taken through g
		nothingLeft(t, client)
	})
}

func TestGroupIsLostWithItsFirstMember(t *testing.T) {
	eachGroup(t, func(t *testing.T, at kit.Addressed, make func(*relock.Session) *relock.Group) {
		s, client := kit.NewSession(t, at), kit.NewClient(t, at)
		g := make(s)
		for _, name := range []string{"a", "b", "c"} {
			kit.Lock(t, kit.Background, g)
			force(t, []*relock.Session{s}, name, g)
			require.NotEmpty(t, kit.Keys(t, client), "the others are held until Unlock")
			err := g.Unlock(kit.Background)
			require.ErrorIs(t, err, relock.ErrLost)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrNotHeld)
			nothingLeft(t, client)
			require.ErrorIs(t, g.Err(), relock.ErrLost, "until the next Lock")
		}
		kit.Lock(t, kit.Background, g)
		require.NoError(t, g.Err())
		kit.Unlock(t, kit.Background, g)
	})
}

// An owner that has a member for long and locks groups of it again and again leaves
// nothing with the member's hold. Each lock of the group used to.
func TestGroupsLeaveNothingWithHoldsOfMembers(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m)
	ctx := s.NewContext(kit.Background)
	a := s.Mutex("a")
	kit.Lock(t, ctx, a)
	g := relock.NewGroup(a, s.Mutex("b"))
	for range 100 {
		kit.Lock(t, ctx, g)
		kit.Unlock(t, ctx, g)
	}
	require.Zero(t, peek.Engine(s).Watchers("a"))
	kit.Lock(t, ctx, g)
	require.Equal(t, 1, peek.Engine(s).Watchers("a"))
	kit.Unlock(t, ctx, g)
}

// Groups of the same members, in opposite orders, exclude each other, and none waits for ever.
func TestGroupsInOppositeOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	type make func(s, far *relock.Session) []relock.Locker
	for name, make := range map[string]make{
		"Mutexes": func(s, _ *relock.Session) []relock.Locker {
			return []relock.Locker{s.Mutex("a"), s.Mutex("b"), s.Mutex("c")}
		},
		"types": func(s, _ *relock.Session) []relock.Locker {
			return []relock.Locker{s.RWMutex("a"), s.Mutex("b"), s.FairMutex("c")}
		},
		"namesakes in two places": func(s, far *relock.Session) []relock.Locker {
			return []relock.Locker{s.Mutex("a"), far.Mutex("a")}
		},
		"strangers": func(s, _ *relock.Session) []relock.Locker {
			return []relock.Locker{stranger{s.Mutex("a")}, stranger{s.Mutex("b")}}
		},
		"a group in a group": func(s, _ *relock.Session) []relock.Locker {
			return []relock.Locker{relock.NewGroup(s.Mutex("a"), s.Mutex("c")), s.Mutex("b")}
		},
		"Redlocks": func(s, far *relock.Session) []relock.Locker {
			both := []*relock.Session{s, far}
			return []relock.Locker{relock.NewRedlock(both, "a"), relock.NewRedlock(both, "b")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 2)
			more := p.more(t, relock.WithTenure(0))
			locks := make(p.sessions[0], p.sessions[1])
			slices.Reverse(locks)
			all := []*relock.Group{
				relock.NewGroup(make(p.sessions[0], p.sessions[1])...), relock.NewGroup(locks...),
				relock.NewGroup(make(more[0], more[1])...),
			}
			var inside atomic.Int64
			require.NoError(t, kit.Together(len(all), func(i int) error {
				ctx, cancel := context.WithTimeout(kit.Background, time.Minute)
				defer cancel()
				for range 30 {
					if err := all[i].Lock(ctx); err != nil {
						return fmt.Errorf("group %d: %w", i, err)
					}
					if n := inside.Add(1); n != 1 {
						return fmt.Errorf("group %d: %d at the same time", i, n)
					}
					err := all[i].Err()
					inside.Add(-1)
					if err := errors.Join(err, all[i].Unlock(kit.Background)); err != nil {
						return fmt.Errorf("group %d: %w", i, err)
					}
				}
				return nil
			}))
			nothingLeft(t, p.clients...)
		})
	}
}

// The call is cancelled while its first script is on its way, its second, and so on; the script is executed all
// the same. In the end the last member is taken, and the call sleeps now and then.
func TestCancelledGroupHoldsNothing(t *testing.T) {
	type make func(s, far *relock.Session) *relock.Group // the last member is d
	for name, make := range map[string]make{
		"mutexes": func(s, _ *relock.Session) *relock.Group {
			return relock.NewGroup(s.Mutex("d"), s.Mutex("a"), s.Mutex("b"), s.Mutex("c"))
		},
		"all types": func(s, far *relock.Session) *relock.Group {
			return relock.NewGroup(far.Mutex("a"), s.RWMutex("b"), far.RWMutex("b").RLocker(), s.FairMutex("c"), s.Mutex("d"))
		},
		"groups in a group": func(s, far *relock.Session) *relock.Group {
			return relock.NewGroup(relock.NewGroup(s.Mutex("a"), far.Mutex("a")),
				relock.NewGroup(s.FairMutex("b"), stranger{far.Mutex("c")}), s.Mutex("d"))
		},
		"Redlocks": func(s, far *relock.Session) *relock.Group {
			both := []*relock.Session{s, far}
			return relock.NewGroup(relock.NewRedlock(both, "a"), s.Mutex("b"), relock.NewRedlock(both, "d"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, 2)
			g, tap := make(p.sessions[0], p.sessions[1]), newTap(p.proxies...)
			taken := kit.NewSession(t, p.servers[0]).Mutex("d")
			kit.Lock(t, kit.Background, g) // every script is known
			kit.Unlock(t, kit.Background, g)
			for _, left := range []int{0, 1} {
				if left == 1 {
					kit.Lock(t, kit.Background, taken)
				}
				for _, wait := range []bool{true, false} {
					for n := 1; n <= 12; n++ {
						keysLeft(t, left, p.clients...)
						ctx, cancel := context.WithCancelCause(kit.Background)
						tap.at(n, func() { cancel(kit.ErrStop) })
						late := time.AfterFunc(100*time.Millisecond, func() { cancel(kit.ErrStop) })
						ok, err := true, error(nil)
						if wait {
							err = g.Lock(ctx)
						} else {
							ok, err = g.TryLock(ctx)
						}
						tap.on.Store(nil)
						late.Stop()
						switch {
						case err != nil:
							require.ErrorIs(t, err, kit.ErrStop, "at script %d", n)
							require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
						case ok:
							require.Zero(t, left, "d is taken")
							kit.Unlock(t, kit.Background, g)
						default:
							require.False(t, wait)
						}
						cancel(nil)
					}
				}
			}
			kit.Unlock(t, kit.Background, taken)
			kit.Lock(t, kit.Background, g)
			kit.Unlock(t, kit.Background, g)
			nothingLeft(t, p.clients...)
		})
	}
}
