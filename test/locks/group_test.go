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

// groups are the members of groups of every kind: locks named a, b and c of s, and some of another server.
var groups = map[string]func(s, far *relock.Session) []relock.Locker{
	"mutexes": func(s, far *relock.Session) []relock.Locker {
		return []relock.Locker{s.Mutex("c"), far.Mutex("a"), s.Mutex("a"), s.Mutex("b")}
	},
	"all types": func(s, far *relock.Session) []relock.Locker {
		return []relock.Locker{
			far.RWMutex("b").RLocker(), s.RWMutex("a").RLocker(), s.FairMutex("b"), far.Mutex("a"), s.RWMutex("c"),
		}
	},
	"groups in a group": func(s, far *relock.Session) []relock.Locker {
		return []relock.Locker{
			relock.NewGroup(s.Mutex("b"), far.Mutex("a")),
			relock.NewGroup(s.FairMutex("a"), stranger{far.Mutex("b")}), s.Mutex("c"),
		}
	},
	"strangers": func(s, _ *relock.Session) []relock.Locker {
		return []relock.Locker{stranger{s.Mutex("a")}, stranger{s.Mutex("b")}, s.Mutex("c")}
	},
	"twice the same": func(s, _ *relock.Session) []relock.Locker {
		return []relock.Locker{s.Mutex("a"), s.Mutex("b"), s.Mutex("a"), s.Mutex("c")}
	},
	"Redlocks": func(s, far *relock.Session) []relock.Locker {
		both := []*relock.Session{s, far}
		return []relock.Locker{relock.NewRedlock(both, "a"), s.Mutex("b"), relock.NewRedlock(both, "c")}
	},
}

func eachGroup(t *testing.T, f func(t *testing.T, p *site, members func(s, far *relock.Session) []relock.Locker)) {
	t.Helper()
	t.Parallel()
	for what, members := range groups {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f(t, newSite(t, 2), members)
		})
	}
}

func TestGroupIsAllOrNothing(t *testing.T) {
	eachGroup(t, func(t *testing.T, p *site, members func(s, far *relock.Session) []relock.Locker) {
		waits := newWaits()
		s, other := p.sessions[0], kit.NewSession(t, p.servers[0])
		waiting := p.more(t, relock.WithObserver(waits))
		for _, name := range []string{"a", "b", "c"} {
			g, same := relock.NewGroup(members(waiting[0], waiting[1])...), relock.NewGroup(members(waiting[0], waiting[1])...)
			m, ctx := other.Mutex(name), s.NewContext(kit.Background)
			kit.Lock(t, kit.Background, m)
			require.False(t, kit.TryLock(t, kit.Background, g), "%s is taken", name)
			keysLeft(t, 1, p.clients...)
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld)

			got := kit.Async(func() error { return g.Lock(ctx) })
			kit.Receive(t, waits.c, "the group to wait for "+name)
			kit.Unlock(t, kit.Background, m)
			require.NoError(t, kit.Receive(t, got, "the group to be locked"))
			for _, name := range []string{"a", "b", "c"} {
				require.Len(t, kit.HoldersOf(t, s, name), 1, name)
			}
			kit.Lock(t, ctx, g)
			kit.Lock(t, ctx, same)
			require.False(t, kit.TryLock(t, kit.Background, g), "another owner")
			require.ErrorIs(t, g.Unlock(s.NewContext(kit.Background)), relock.ErrNotHeld, "another owner")
			kit.Unlock(t, ctx, g)
			kit.Unlock(t, ctx, same)
			require.NoError(t, g.Err())
			done := g.Done()
			require.False(t, kit.IsClosed(done))
			kit.Unlock(t, kit.Background, g) // without an owner: the latest hold taken through g
			require.True(t, kit.IsClosed(done))
			require.ErrorIs(t, g.Err(), relock.ErrNotHeld)
			require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrNotHeld)
			nothingLeft(t, p.clients...)

			kit.Lock(t, kit.Background, g)
			force(t, g, name, s)
			err := g.Unlock(kit.Background)
			require.ErrorIs(t, err, relock.ErrLost)
			require.True(t, strings.HasPrefix(err.Error(), "relock: "), err.Error())
			require.ErrorIs(t, g.Unlock(kit.Background), relock.ErrNotHeld)
			require.ErrorIs(t, g.Err(), relock.ErrLost, "until the next Lock")
			nothingLeft(t, p.clients...)
		}
	})
}

// Members exclude each other by their keys, and not by their names.
func TestGroupsThatCannotWorkAreRefused(t *testing.T) {
	kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
		client := kit.NewClient(t, at) // one for all: by that miniredis, which has no run id, is known to be one
		s, other := kit.SessionOn(t, client), kit.SessionOn(t, client)
		in := kit.SessionOn(t, client, relock.WithPrefix("in:"))
		for what, locks := range map[string][]relock.Locker{
			"no member":                         {},
			"nil":                               {s.Mutex("a"), nil},
			"a nil Mutex":                       {(*relock.Mutex)(nil)},
			"a nil Group":                       {(*relock.Group)(nil)},
			"a nil pointer of a stranger":       {(*stranger)(nil)},
			"Mutex and FairMutex of a name":     {s.Mutex("a"), s.FairMutex("a")},
			"Mutex and RWMutex of a name":       {s.Mutex("a"), s.Mutex("b"), s.RWMutex("a").RLocker()},
			"Mutex and Redlock of a name":       {relock.NewRedlock([]*relock.Session{s}, "a"), s.Mutex("a")},
			"one name in two sessions":          {s.Mutex("a"), other.Mutex("a")},
			"FairMutex, one name, two sessions": {s.FairMutex("a"), other.FairMutex("a")},
			"reader and writer in two sessions": {s.RWMutex("a").RLocker(), other.RWMutex("a")},
			"a name that ends another's prefix": {s.Mutex("in:a"), in.Mutex("a")},
			"types of one key":                  {s.FairMutex("in:a"), in.RWMutex("a")},
			"a Redlock of the key":              {relock.NewRedlock([]*relock.Session{in}, "a"), s.Mutex("in:a")},
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
	p := newSite(t, 2)
	s, far, in := p.sessions[0], p.sessions[1], kit.NewSession(t, p.servers[0], relock.WithPrefix("in:"))
	for what, locks := range map[string][]relock.Locker{
		"readers in two sessions":   {s.RWMutex("in:a").RLocker(), in.RWMutex("a").RLocker()},
		"both sides of one RWMutex": {s.RWMutex("a").RLocker(), s.RWMutex("a")},
		"one name three times":      {s.Mutex("a"), s.Mutex("b"), s.Mutex("a"), s.Mutex("a")},
		"two fair, and another":     {s.FairMutex("a"), s.FairMutex("a"), s.Mutex("b")},
		"readers around a writer":   {s.RWMutex("a").RLocker(), s.RWMutex("a"), s.RWMutex("a").RLocker()},
		"one name in two places":    {s.Mutex("a"), far.Mutex("a"), in.Mutex("a")},
		"types of one name, apart":  {s.Mutex("a"), far.FairMutex("a")},
		"two handles of one Redlock": {
			relock.NewRedlock([]*relock.Session{s, far}, "a"), relock.NewRedlock([]*relock.Session{far, s}, "a"),
		},
		"a Redlock and its prefix":   {relock.NewRedlock([]*relock.Session{s}, "a"), in.Mutex("a")},
		"a member and its group":     {s.Mutex("a"), relock.NewGroup(s.Mutex("a"), s.Mutex("b"))},
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
		nothingLeft(t, p.clients...)
	}
}

// Regression: each lock of a group left something with the hold of a member that its owner had for longer.
func TestGroupsLeaveNothingWithHoldsOfMembers(t *testing.T) {
	m, _ := redistest.Mini(t)
	s := kit.NewSession(t, m)
	a, ctx := s.Mutex("a"), s.NewContext(kit.Background)
	g := relock.NewGroup(a, s.Mutex("b"))
	kit.Lock(t, ctx, a)
	kit.Lock(t, ctx, g)
	require.Equal(t, 1, peek.Watchers(s, "a"))
	kit.Unlock(t, ctx, g)
	require.Zero(t, peek.Watchers(s, "a"))
}

// Groups of the same members, in opposite orders, exclude each other, and none waits for ever.
func TestGroupsInOppositeOrderDoNotDeadlock(t *testing.T) {
	eachGroup(t, func(t *testing.T, p *site, members func(s, far *relock.Session) []relock.Locker) {
		more := p.more(t, relock.WithTenure(0))
		locks := members(p.sessions[0], p.sessions[1])
		slices.Reverse(locks)
		all := []*relock.Group{
			relock.NewGroup(members(p.sessions[0], p.sessions[1])...), relock.NewGroup(locks...),
			relock.NewGroup(members(more[0], more[1])...),
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

// In the end the last member is taken.
func TestCancelledGroupHoldsNothing(t *testing.T) {
	eachGroup(t, func(t *testing.T, p *site, members func(s, far *relock.Session) []relock.Locker) {
		g := relock.NewGroup(members(p.sessions[0], p.sessions[1])...)
		kit.Lock(t, kit.Background, g) // every script is known
		kit.Unlock(t, kit.Background, g)
		p.cancels(t, g, 0, true)
		taken := kit.NewSession(t, p.servers[0]).Mutex("c")
		kit.Lock(t, kit.Background, taken)
		p.cancels(t, g, 1, false)
		kit.Unlock(t, kit.Background, taken)
		kit.Lock(t, kit.Background, g)
		kit.Unlock(t, kit.Background, g)
		nothingLeft(t, p.clients...)
	})
}
