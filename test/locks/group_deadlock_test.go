package locks_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// inTurn has every group locked so many times, all at the same time. They must exclude
// each other, and none may wait for ever.
func inTurn(t *testing.T, rounds int, groups ...*relock.Group) {
	t.Helper()
	ctx, cancel := context.WithTimeout(kit.Background, time.Minute)
	defer cancel()
	var inside, passed atomic.Int64
	err := kit.Together(len(groups), func(i int) error {
		for round := range rounds {
			if err := groups[i].Lock(ctx); err != nil {
				return fmt.Errorf("group %d, round %d: %w", i, round, err)
			}
			if n := inside.Add(1); n != 1 {
				return fmt.Errorf("group %d, round %d: %d at the same time", i, round, n)
			}
			passed.Add(1)
			if err := groups[i].Err(); err != nil {
				return fmt.Errorf("group %d, round %d: %w", i, round, err)
			}
			inside.Add(-1)
			if err := groups[i].Unlock(kit.Background); err != nil {
				return fmt.Errorf("group %d, round %d: %w", i, round, err)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, rounds*len(groups), passed.Load())
}

// opposite returns a group of the first locks, and one of the second in the opposite order.
func opposite(a, b func() []relock.Locker) []*relock.Group {
	locks := b()
	slices.Reverse(locks)
	return []*relock.Group{relock.NewGroup(a()...), relock.NewGroup(locks...)}
}

func TestGroupsInOppositeOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	server, elsewhere := redistest.Start(t), redistest.Start(t)
	one, two := kit.NewSession(t, server), kit.NewSession(t, server)
	far, further := kit.NewSession(t, elsewhere), kit.NewSession(t, elsewhere)
	client, away := kit.NewClient(t, server), kit.NewClient(t, elsewhere)
	mutexes := func(s *relock.Session) func() []relock.Locker {
		return func() []relock.Locker {
			return []relock.Locker{s.Mutex("a"), s.Mutex("b"), s.Mutex("c")}
		}
	}
	mixed := func(s *relock.Session) func() []relock.Locker {
		return func() []relock.Locker {
			return []relock.Locker{s.RWMutex("a"), s.Mutex("b"), s.FairMutex("c")}
		}
	}
	namesakes := func(s, far *relock.Session) func() []relock.Locker {
		return func() []relock.Locker { return []relock.Locker{s.Mutex("a"), far.Mutex("a")} }
	}
	strangers := func(s *relock.Session) func() []relock.Locker {
		return func() []relock.Locker {
			return []relock.Locker{stranger{s.Mutex("a")}, stranger{s.Mutex("b")}}
		}
	}
	nested := func(s *relock.Session) func() []relock.Locker {
		return func() []relock.Locker {
			return []relock.Locker{relock.NewGroup(s.Mutex("a"), s.Mutex("c")), s.Mutex("b")}
		}
	}
	redlocks := func(s, far *relock.Session) func() []relock.Locker {
		return func() []relock.Locker {
			both := []*relock.Session{s, far}
			return []relock.Locker{relock.NewRedlock(both, "a"), relock.NewRedlock(both, "b")}
		}
	}
	for _, c := range []struct {
		name   string
		rounds int
		groups []*relock.Group
	}{
		{"Mutexes of one session", 100, opposite(mutexes(one), mutexes(one))},
		{"Mutexes of two sessions", 100, opposite(mutexes(one), mutexes(two))},
		{"types in two sessions", 100, opposite(mixed(one), mixed(two))},
		{"namesakes in two places", 50, opposite(namesakes(one, far), namesakes(two, further))},
		{"strangers", 50, opposite(strangers(one), strangers(two))},
		{"a group in a group", 50, opposite(nested(one), nested(two))},
		{"Redlocks", 20, opposite(redlocks(one, far), redlocks(two, further))},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTurn(t, c.rounds, c.groups...)
			redistest.Eventually(t, kit.Quickly, "everything to be free", func() bool {
				return len(kit.Keys(t, client)) == 0 && len(kit.Keys(t, away)) == 0
			})
		})
	}
}

// Groups that share a member with each neighbour, like philosophers, and single locks
// that are taken beside them.
func TestGroupsInACircleDoNotDeadlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sessions := []*relock.Session{kit.NewSession(t, server), kit.NewSession(t, server)}
	const forks, rounds = 5, 60
	var used [forks]atomic.Int64
	ctx, cancel := context.WithTimeout(kit.Background, time.Minute)
	defer cancel()
	take := func(l relock.Locker, which ...int) error {
		if err := l.Lock(ctx); err != nil {
			return err
		}
		for _, i := range which {
			if n := used[i].Add(1); n != 1 {
				return fmt.Errorf("fork %d is used by %d", i, n)
			}
		}
		for _, i := range which {
			used[i].Add(-1)
		}
		return l.Unlock(ctx)
	}
	err := kit.Together(3*forks, func(i int) error {
		s, left, right := sessions[i%2], i%forks, (i+1)%forks
		fork := func(i int) relock.Locker { return s.Mutex(fmt.Sprint("fork ", i)) }
		for range rounds {
			var err error
			if i < 2*forks {
				err = take(relock.NewGroup(fork(left), fork(right)), left, right)
			} else {
				err = take(fork(left), left)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	client := kit.NewClient(t, server)
	redistest.Eventually(t, kit.Quickly, "everything to be free", func() bool { return len(kit.Keys(t, client)) == 0 })
}
