package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An owner enters again what it holds, through any value, without asking Redis, as often
// as it likes; its last unlock releases.
func TestReentryAsksRedisOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, k *lockKind) {
		server := redistest.Start(t)
		s := newSession(t, server)
		other, one := k.holder(newSession(t, server)), k.of(s)
		for shape, locks := range map[string][]relock.Locker{
			"values": {k.of(s), k.of(s), k.of(s)}, "one value": {one, one, one},
		} {
			owner := s.NewContext(background)
			lock(t, owner, locks[0])
			unlock(t, owner, locks[0]) // the server knows the scripts
			holdersOf(t, s, "lock")
			cost := trafficOf(server, func() {
				for _, l := range locks {
					lock(t, owner, l)
					require.True(t, tryLock(t, owner, l))
					unlock(t, owner, l)
				}
			})
			require.EqualValues(t, 1, cost.scripts, "%s: one acquire", shape)
			require.Len(t, holdersOf(t, s, "lock"), 1, shape)
			require.Equal(t, 1, holdersOf(t, s, "lock")[0].Count, "Redis sees one")
			require.False(t, tryLock(t, background, other), shape)
			done := locks[2].Done()
			cost = trafficOf(server, func() {
				for _, l := range locks {
					require.NoError(t, l.Err(), shape)
					require.False(t, isClosed(done), shape)
					unlock(t, owner, l)
				}
			})
			require.EqualValues(t, 1, cost.scripts, "%s: one release", shape)
			require.True(t, isClosed(done), shape)
			require.ErrorIs(t, locks[0].Unlock(owner), relock.ErrNotHeld, shape)
			require.True(t, tryLock(t, background, other), shape)
			unlock(t, background, other)
		}
	})
}

// Without an owner, each call is one of its own, and so is that of another owner.
func TestOwnersExcludeEachOther(t *testing.T) {
	eachExclusive(t, func(t *testing.T, k *lockKind) {
		onBoth(t, func(t *testing.T, at addressed) {
			s := newSession(t, at)
			m := k.of(s)
			for _, ctx := range []context.Context{background, s.NewContext(background)} {
				lock(t, ctx, m)
				for _, other := range []context.Context{background, s.NewContext(background)} {
					require.False(t, tryLock(t, other, m))
					got := async(func() error { return m.Lock(other) })
					time.Sleep(5 * time.Millisecond)
					require.Empty(t, got)
					unlock(t, ctx, m)
					require.NoError(t, receive(t, got, "the other one to get in"))
					unlock(t, other, m)
					lock(t, ctx, m)
				}
				unlock(t, ctx, m)
			}
			nothingLeft(t, newClient(t, at))
		})
	})
}

// Guarantee 4: the unlock of a lost hold releases nothing, whoever has the lock now and
// through whatever value.
func TestALateUnlockReleasesNobody(t *testing.T) {
	eachKind(t, func(t *testing.T, k *lockKind) {
		onBoth(t, func(t *testing.T, at addressed) {
			s, client := newSession(t, at), newClient(t, at)
			for _, next := range []*relock.Session{s, newSession(t, at)} {
				for _, ctx := range []context.Context{background, s.NewContext(background)} {
					for _, kind := range []func(*relock.Session) relock.Locker{k.of, k.holder} {
						m, after := k.of(s), kind(next)
						lock(t, ctx, m)
						done := m.Done()
						was, err := s.ForceUnlock(background, "lock")
						require.NoError(t, err)
						require.True(t, was)
						receive(t, done, "the holder to be told")
						lock(t, background, after)
						held := hashOf(t, client, "lock")
						require.ErrorIs(t, m.Unlock(ctx), relock.ErrLost)
						require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)
						require.NoError(t, after.Err())
						require.Equal(t, held, hashOf(t, client, "lock"))
						unlock(t, background, after)
						nothingLeft(t, client)
					}
				}
			}
		})
	})
}

// What a value tells of its hold, while it is held, after its end and after its loss.
func TestWhatEveryLockTellsOfItsHold(t *testing.T) {
	eachKind(t, func(t *testing.T, k *lockKind) {
		onBoth(t, func(t *testing.T, at addressed) {
			const lease = 30 * time.Second
			s := newSession(t, at, relock.WithWatchdog(lease))
			l := k.of(s)
			fenced, exclusive := l.(fencedLocker)
			require.Equal(t, k.exclusive(), exclusive)
			nothing := func(l relock.Locker) {
				t.Helper()
				require.ErrorIs(t, l.Err(), relock.ErrNotHeld)
				require.NotErrorIs(t, l.Err(), relock.ErrLost)
				require.True(t, isClosed(l.Done()))
				if fenced, ok := l.(fencedLocker); ok {
					require.Zero(t, fenced.FencingToken())
					_, certain := fenced.Deadline()
					require.False(t, certain)
				}
			}
			nothing(l)
			last := int64(0)
			for range 3 {
				before := time.Now()
				lock(t, background, l)
				after := time.Now()
				done := l.Done()
				require.NoError(t, l.Err())
				require.False(t, isClosed(done))
				require.Equal(t, done, l.Done(), "the channel stays the same")
				if exclusive {
					require.Greater(t, fenced.FencingToken(), last)
					last = fenced.FencingToken()
					until, ok := fenced.Deadline()
					require.True(t, ok)
					require.True(t, until.After(before.Add(lease*9/10)), "%v", until.Sub(before))
					require.True(t, until.Before(after.Add(lease)), "%v", until.Sub(after))
				}
				nothing(k.of(s)) // another value has taken nothing
				unlock(t, background, l)
				require.True(t, isClosed(done))
				nothing(l)
			}
			lock(t, background, l)
			done := l.Done()
			_, err := s.ForceUnlock(background, "lock")
			require.NoError(t, err)
			receive(t, done, "the holder to be told")
			require.ErrorIs(t, l.Err(), relock.ErrLost)
			if exclusive {
				require.Greater(t, fenced.FencingToken(), last, "kept, to be compared")
			}
			err = l.Unlock(background)
			require.ErrorIs(t, err, relock.ErrLost)
			require.Contains(t, err.Error(), `"lock"`)
			require.ErrorIs(t, l.Err(), relock.ErrLost, "the latest hold is the lost one")
			lock(t, background, l)
			require.NoError(t, l.Err())
			unlock(t, background, l)
			nothing(l)
		})
	})
}
