package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kit"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An owner enters again what it holds, through any value, without asking Redis, as often
// as it likes; its last unlock releases.
func TestReentrySendsOneAcquire(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		server := redistest.Start(t)
		s := kit.NewSession(t, server)
		other, one := k.Holder(kit.NewSession(t, server)), k.Of(s)
		for shape, locks := range map[string][]relock.Locker{
			"values": {k.Of(s), k.Of(s), k.Of(s)}, "one value": {one, one, one},
		} {
			owner := s.NewContext(kit.Background)
			kit.Lock(t, owner, locks[0])
			kit.Unlock(t, owner, locks[0]) // the server knows the scripts
			kit.HoldersOf(t, s, "lock")
			cost := trafficOf(server, func() {
				for _, l := range locks {
					kit.Lock(t, owner, l)
					require.True(t, kit.TryLock(t, owner, l))
					kit.Unlock(t, owner, l)
				}
			})
			require.EqualValues(t, 1, cost.scripts, "%s: one acquire", shape)
			require.Len(t, kit.HoldersOf(t, s, "lock"), 1, shape)
			require.Equal(t, 1, kit.HoldersOf(t, s, "lock")[0].Count, "Redis sees one")
			require.False(t, kit.TryLock(t, kit.Background, other), shape)
			done := locks[2].Done()
			cost = trafficOf(server, func() {
				for _, l := range locks {
					require.NoError(t, l.Err(), shape)
					require.False(t, kit.IsClosed(done), shape)
					kit.Unlock(t, owner, l)
				}
			})
			require.EqualValues(t, 1, cost.scripts, "%s: one release", shape)
			require.True(t, kit.IsClosed(done), shape)
			require.ErrorIs(t, locks[0].Unlock(owner), relock.ErrNotHeld, shape)
			require.True(t, kit.TryLock(t, kit.Background, other), shape)
			kit.Unlock(t, kit.Background, other)
		}
	})
}

// Without an owner, each call is one of its own, and so is that of another owner.
func TestOwnersExcludeEachOther(t *testing.T) {
	eachExclusive(t, func(t *testing.T, k *kit.LockKind) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			s := kit.NewSession(t, at)
			m := k.Of(s)
			for _, ctx := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
				kit.Lock(t, ctx, m)
				for _, other := range []context.Context{kit.Background, s.NewContext(kit.Background)} {
					require.False(t, kit.TryLock(t, other, m))
					got := kit.Async(func() error { return m.Lock(other) })
					time.Sleep(5 * time.Millisecond)
					require.Empty(t, got)
					kit.Unlock(t, ctx, m)
					require.NoError(t, kit.Receive(t, got, "the other one to get in"))
					kit.Unlock(t, other, m)
					kit.Lock(t, ctx, m)
				}
				kit.Unlock(t, ctx, m)
			}
			nothingLeft(t, kit.NewClient(t, at))
		})
	})
}

// What a value tells of its hold, while it is held, after its end and after its loss.
func TestEveryLockDescribesItsHold(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k *kit.LockKind) {
		kit.OnBoth(t, func(t *testing.T, at kit.Addressed) {
			const lease = 30 * time.Second
			s := kit.NewSession(t, at, relock.WithLease(lease))
			l := k.Of(s)
			fenced, exclusive := l.(kit.FencedLocker)
			require.Equal(t, k.Exclusive(), exclusive)
			nothing := func(l relock.Locker) {
				t.Helper()
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.NotErrorIs(t, l.Err(), relock.ErrLost)
				require.True(t, kit.IsClosed(l.Done()))
				if fenced, ok := l.(kit.FencedLocker); ok {
					require.Zero(t, fenced.FencingToken())
					_, certain := fenced.Deadline()
					require.False(t, certain)
				}
			}
			nothing(l)
			last := int64(0)
			for range 3 {
				before := time.Now()
				kit.Lock(t, kit.Background, l)
				after := time.Now()
				done := l.Done()
				require.NoError(t, l.Err())
				require.False(t, kit.IsClosed(done))
				require.Equal(t, done, l.Done(), "the channel stays the same")
				if exclusive {
					require.Greater(t, fenced.FencingToken(), last)
					last = fenced.FencingToken()
					until, ok := fenced.Deadline()
					require.True(t, ok)
					require.True(t, until.After(before.Add(lease*9/10)), "%v", until.Sub(before))
					require.True(t, until.Before(after.Add(lease)), "%v", until.Sub(after))
				}
				nothing(k.Of(s)) // another value has taken nothing
				kit.Unlock(t, kit.Background, l)
				require.True(t, kit.IsClosed(done))
				nothing(l)
			}
			kit.Lock(t, kit.Background, l)
			done := l.Done()
			_, err := s.ForceUnlock(kit.Background, "lock")
			require.NoError(t, err)
			kit.Receive(t, done, "the holder to be told")
			require.ErrorIs(t, l.Err(), relock.ErrLost)
			if exclusive {
				require.Greater(t, fenced.FencingToken(), last, "kept, to be compared")
			}
			err = l.Unlock(kit.Background)
			require.ErrorIs(t, err, relock.ErrLost)
			require.Contains(t, err.Error(), `"lock"`)
			require.ErrorIs(t, l.Err(), relock.ErrLost, "the latest hold is the lost one")
			kit.Lock(t, kit.Background, l)
			require.NoError(t, l.Err())
			kit.Unlock(t, kit.Background, l)
			nothing(l)
		})
	})
}
