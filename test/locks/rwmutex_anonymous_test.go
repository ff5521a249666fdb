package locks_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// ownLeases are the options that give each reader a lease of its own.
var ownLeases = map[string]relock.LockOption{
	"WithFixedLease": relock.WithFixedLease(time.Hour), "WithMaxHold": relock.WithMaxHold(time.Hour),
}

// readKeys returns the leases of readers in Redis.
func readKeys(t testing.TB, server *redistest.Server) (ks []string) {
	t.Helper()
	for _, k := range leasesOf(t, server) {
		ks = append(ks, k.(string))
	}
	return ks
}

// readingKinds are lock values that several goroutines may hold at the same time.
var readingKinds = map[string]func(s *relock.Session) relock.Locker{
	"shared lease": func(s *relock.Session) relock.Locker { return s.RWMutex("lock").RLocker() },
	"WithFixedLease": func(s *relock.Session) relock.Locker {
		return s.RWMutex("lock", ownLeases["WithFixedLease"]).RLocker()
	},
	"WithMaxHold": func(s *relock.Session) relock.Locker {
		return s.RWMutex("lock", ownLeases["WithMaxHold"]).RLocker()
	},
	"group": func(s *relock.Session) relock.Locker {
		return relock.NewGroup(s.RWMutex("lock").RLocker(), s.RWMutex("other").RLocker())
	},
	"group WithFixedLease": func(s *relock.Session) relock.Locker {
		return relock.NewGroup(s.RWMutex("lock", ownLeases["WithFixedLease"]).RLocker(), s.RWMutex("other").RLocker())
	},
	"group of a group": func(s *relock.Session) relock.Locker {
		return relock.NewGroup(relock.NewGroup(s.RWMutex("lock").RLocker()), s.RWMutex("other").RLocker())
	},
}

// Regression: the end of one function ended the hold of another one, which was told that
// it had lost it. Some lock and unlock beside them, and end nobody's hold but their own.
func TestDoEndsItsOwnHold(t *testing.T) {
	t.Parallel()
	for name, of := range readingKinds {
		for order, ends := range map[string][]int{"first in first out": {0, 1, 2}, "last in first out": {2, 1, 0}} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				s := kit.NewSession(t, server)
				l := of(s)
				inside := make(chan struct{})
				var results []<-chan error
				var leave []chan struct{}
				keys := make([][]string, 3)
				for i := range ends {
					before := readKeys(t, server)
					stop := make(chan struct{})
					leave = append(leave, stop)
					results = append(results, kit.Async(func() error {
						return relock.Do(kit.Background, l, func(ctx context.Context) error {
							inside <- struct{}{}
							<-stop
							return context.Cause(ctx)
						})
					}))
					kit.Receive(t, inside, "the function to be called")
					for _, k := range readKeys(t, server) {
						if !slices.Contains(before, k) {
							keys[i] = append(keys[i], k)
						}
					}
					kit.Lock(t, kit.Background, l)
				}
				for range ends {
					kit.Unlock(t, kit.Background, l)
				}
				for n, i := range ends {
					close(leave[i])
					require.NoError(t, kit.Receive(t, results[i], "the function to return"))
					if name == "shared lease" || name == "group" || name == "group of a group" {
						continue
					}
					var left []string
					for _, j := range ends[n+1:] {
						left = append(left, keys[j]...)
					}
					require.ElementsMatch(t, left, readKeys(t, server))
				}
				mustBeQuiet(t, kit.NewClient(t, server), "lock", s)
			})
		}
	}
}

// And a loss is told to each function.
func TestDoCancelsEveryFunctionOnLoss(t *testing.T) {
	t.Parallel()
	for name, of := range readingKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.NewSession(t, redistest.Start(t))
			l := of(s)
			inside := make(chan struct{})
			var results []<-chan error
			for range 3 {
				results = append(results, kit.Async(func() error {
					return relock.Do(kit.Background, l, func(ctx context.Context) error {
						inside <- struct{}{}
						<-ctx.Done()
						return context.Cause(ctx)
					})
				}))
				kit.Receive(t, inside, "the function to be called")
			}
			_, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			for _, r := range results {
				require.ErrorIs(t, kit.Receive(t, r, "the function to return"), relock.ErrLost)
			}
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
		})
	}
}

// leasesOf returns the keys of the leases of readers.
func leasesOf(t testing.TB, s *redistest.Server) []any {
	t.Helper()
	reply, err := s.Do("KEYS", "{lock}:*:rwlock_timeout:*")
	require.NoError(t, err)
	return reply.([]any)
}
