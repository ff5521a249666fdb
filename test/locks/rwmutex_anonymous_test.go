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

// Of two readers through one value who has unlocked cannot be told. Whoever it was, the
// lease that goes on longest stays, and neither is told of an end.
func TestRUnlockLeavesTheReaderThatIsLeftItsWholeLease(t *testing.T) {
	t.Parallel()
	for name, own := range ownLeases {
		for _, grouped := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				s, other := kit.NewSession(t, server), kit.NewSession(t, server).RWMutex("lock")
				l := s.RWMutex("lock", own).RLocker()
				if grouped {
					l = relock.NewGroup(l)
				}
				var leases, keys []string
				var dones []<-chan struct{}
				for range 3 {
					kit.Lock(t, kit.Background, l)
					keys = readKeys(t, server)
					for _, k := range keys {
						if !slices.Contains(leases, k) {
							leases = append(leases, k) // in order of their ends
						}
					}
					dones = append(dones, l.Done())
				}
				require.Len(t, leases, 3)
				for left := 2; left > 0; left-- {
					kit.Unlock(t, kit.Background, l)
					require.ElementsMatch(t, leases[3-left:], readKeys(t, server))
					require.NoError(t, l.Err())
					for _, done := range append(dones, l.Done()) {
						require.False(t, kit.IsClosed(done), "one that is in may listen to it")
					}
				}
				require.False(t, kit.TryLock(t, kit.Background, other))
				kit.Unlock(t, kit.Background, l)
				for _, done := range append(dones, l.Done()) {
					require.True(t, kit.IsClosed(done))
				}
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
				kit.Lock(t, kit.Background, other)
				kit.Unlock(t, kit.Background, other)
				mustBeQuiet(t, kit.NewClient(t, server), "lock", s)
			})
		}
	}
}

// A real loss is told to all of those that may be in.
func TestRUnlockLeavesEveryLossReported(t *testing.T) {
	t.Parallel()
	for name, own := range ownLeases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := kit.NewSession(t, server)
			l := s.RWMutex("lock", own).RLocker()
			var dones []<-chan struct{}
			for range 3 {
				kit.Lock(t, kit.Background, l)
				dones = append(dones, l.Done())
			}
			kit.Unlock(t, kit.Background, l)
			_, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			for _, done := range dones {
				kit.Receive(t, done, "the loss to be told")
			}
			require.ErrorIs(t, l.Err(), relock.ErrLost)
			for range 2 {
				require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrLost)
			}
			require.ErrorIs(t, l.Unlock(kit.Background), relock.ErrNotHeld)
			mustBeQuiet(t, kit.NewClient(t, server), "lock", s)
		})
	}
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
