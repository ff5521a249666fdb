package locks_test

import (
	"context"
	"errors"
	"strings"
	"testing"

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

// stranger is a Locker of a type that the package does not know.
type stranger struct{ relock.Locker }

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
		s, other, client := kit.NewSession(t, at), kit.NewSession(t, at), kit.NewClient(t, at)
		g := make(s)
		for _, name := range []string{"a", "b", "c"} {
			var m relock.Locker = other.Mutex(name)
			if s := kit.HoldersOf(t, s, name); len(s) > 0 {
				t.Fatalf("%s is held", name)
			}
			kit.Lock(t, kit.Background, m)
			require.False(t, kit.TryLock(t, kit.Background, g), "%s is taken", name)
			redistest.Eventually(t, kit.Quickly, "all others to be free", func() bool { return len(kit.Keys(t, client)) == 1 })
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld)

			got := kit.Async(func() error { return g.Lock(kit.Background) })
			awaitedBy(t, s, name)
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
			redistest.Eventually(t, kit.Quickly, "everything to be free", func() bool { return len(kit.Keys(t, client)) == 0 })
		}
	})
}

// awaitedBy waits until a session has seen that a lock is taken, so that its call waits.
func awaitedBy(t testing.TB, s *relock.Session, name string) {
	t.Helper()
	redistest.Eventually(t, kit.Soon, "the session to wait for "+name, func() bool { return peek.Waits(s, name) })
}

// However many Mutexes there are, one script takes them and one releases them.
func TestGroupOfMutexesOfASessionTakesOneRoundTripEachWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := kit.NewSession(t, server)
	var locks []relock.Locker
	for i := range 10 {
		locks = append(locks, s.Mutex(string(rune('a'+i))))
	}
	g := relock.NewGroup(locks...)
	kit.Lock(t, kit.Background, g)
	kit.Unlock(t, kit.Background, g)
	require.Equal(t, traffic{scripts: 1, acquired: 10}, trafficOf(server, func() { kit.Lock(t, kit.Background, g) }))
	for _, l := range locks {
		require.NoError(t, l.Err())
		require.Positive(t, l.(*relock.Mutex).FencingToken())
	}
	require.Equal(t, traffic{scripts: 1, released: 10}, trafficOf(server, func() { kit.Unlock(t, kit.Background, g) }))
}

func TestGroupsThatCannotWorkAreRefused(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		s, other := kit.NewSession(t, at), kit.NewSession(t, at)
		three := []*relock.Session{s}
		for what, locks := range map[string][]relock.Locker{
			"no member":                         {},
			"nil":                               {s.Mutex("a"), nil},
			"a nil Mutex":                       {(*relock.Mutex)(nil)},
			"a nil FairMutex":                   {(*relock.FairMutex)(nil), s.Mutex("a")},
			"a nil RWMutex":                     {(*relock.RWMutex)(nil)},
			"a nil Group":                       {(*relock.Group)(nil)},
			"a nil Redlock":                     {(*relock.Redlock)(nil)},
			"a nil pointer of a stranger":       {(*stranger)(nil)},
			"Mutex and FairMutex of a name":     {s.Mutex("a"), s.FairMutex("a")},
			"Mutex and RWMutex of a name":       {s.Mutex("a"), s.Mutex("b"), s.RWMutex("a").RLocker()},
			"Mutex and Redlock of a name":       {relock.NewRedlock(three, "a"), s.Mutex("a")},
			"one name in two sessions":          {s.Mutex("a"), other.Mutex("a")},
			"FairMutex, one name, two sessions": {s.FairMutex("a"), other.FairMutex("a")},
			"reader and writer in two sessions": {s.RWMutex("a").RLocker(), other.RWMutex("a")},
		} {
			g := relock.NewGroup(locks...)
			ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
			err := g.Lock(ctx)
			require.ErrorIs(t, err, relock.ErrOption, what)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			cancel()
			redistest.Eventually(t, kit.Soon, "TryLock to refuse "+what, func() bool {
				ok, err := g.TryLock(kit.Background)
				require.False(t, ok) // while what Lock gave back is still being released
				return errors.Is(err, relock.ErrOption)
			})
			require.Error(t, g.Unlock(kit.Background), what)
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld, what)
			require.True(t, kit.IsClosed(g.Done()), what)
		}
		client := kit.NewClient(t, at)
		redistest.Eventually(t, kit.Quickly, "nothing to be left", func() bool { return len(kit.Keys(t, client)) == 0 })
	})
}

// What excludes nobody is no reason to refuse.
func TestGroupsThatLookAlikeWork(t *testing.T) {
	t.Parallel()
	server, elsewhere := redistest.Start(t), redistest.Start(t)
	s, other, far := kit.NewSession(t, server), kit.NewSession(t, server), kit.NewSession(t, elsewhere)
	for what, locks := range map[string][]relock.Locker{
		"readers in two sessions":    {s.RWMutex("a").RLocker(), other.RWMutex("a").RLocker()},
		"both sides of one RWMutex":  {s.RWMutex("a").RLocker(), s.RWMutex("a")},
		"one name in two places":     {s.Mutex("a"), far.Mutex("a")},
		"types of one name, apart":   {s.Mutex("a"), far.FairMutex("a")},
		"two values of one Redlock":  {relock.NewRedlock([]*relock.Session{s, far}, "a"), relock.NewRedlock([]*relock.Session{far, s}, "a")},
		"a member and its group":     {s.Mutex("a"), relock.NewGroup(s.Mutex("a"), s.Mutex("b"))},
		"values of one name":         {s.Mutex("a"), s.Mutex("a"), s.Mutex("a")},
		"a group that is its member": {relock.NewGroup(relock.NewGroup(far.RWMutex("b")))},
	} {
		g := relock.NewGroup(locks...)
		for range 2 {
			ctx, cancel := context.WithTimeout(kit.Background, kit.Soon)
			require.NoError(t, g.Lock(ctx), what)
			require.NoError(t, g.Err(), what)
			kit.Unlock(t, kit.Background, g)
			require.True(t, kit.TryLock(t, kit.Background, g), what)
			kit.Unlock(t, kit.Background, g)
			cancel()
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
		redistest.Eventually(t, kit.Quickly, "everything to be free", func() bool { return len(kit.Keys(t, client)) == 0 })
	})
}
